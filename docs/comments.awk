# Doxygen's input filter: plain comments beside and above members become documentation comments.
# A comment that begins beside code goes on in the comment lines that follow far to the right.
{
  far = match($0, /[^ ]/) > 9
  if ($0 ~ /^ +\/\/([^\/]|$)/) {
    if (beside && far) sub(/\/\//, "///<")
    else { sub(/\/\//, "///"); beside = 0 }
  } else if ($0 ~ /^ .*[;,}a-z0-9]  +\/\/ / && $0 !~ /^ *\/\//) {
    sub(/\/\/ /, "///< ")
    beside = 1
  } else {
    beside = 0
  }
  print
}
