# Doxygen's input filter: plain comments beside and above members become documentation comments.
# A comment that begins beside code goes on in the comment lines that follow far to the right.
# Headings of a group of members stay plain.
/\/\/ (What the pool is|Of logs, in kernels)/ { beside = 0; print; next }
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
