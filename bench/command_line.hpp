// The command line as the subcommands see it. CLI11 reads it, in command_line.cpp alone: its
// headers take a compiler longer than most of what the subcommands do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace perdure::bench {

/// What an option's value must be.
class Check {
 public:
  struct Rule;
  explicit Check(std::shared_ptr<Rule const> rule) : rule_(std::move(rule)) {}
  [[nodiscard]] Rule const& rule() const { return *rule_; }

 private:
  std::shared_ptr<Rule const> rule_;
};
[[nodiscard]] Check range(int low, int high);
[[nodiscard]] Check range(std::uint32_t low, std::uint32_t high);
[[nodiscard]] Check range(double low, double high);
[[nodiscard]] Check positive();
[[nodiscard]] Check non_negative();
/// Nothing is there, or it is "-".
[[nodiscard]] Check new_file();
[[nodiscard]] Check one_of(std::vector<std::string> const& names);
[[nodiscard]] Check one_of(std::initializer_list<char const*> names);
[[nodiscard]] Check one_of(std::initializer_list<std::uint32_t> numbers);

/// An option that was just added: what else is to be said of it.
class Option {
 public:
  explicit Option(void* of_cli11) : option_(of_cli11) {}
  Option& shows_default();
  Option& separated_by(char delimiter);
  Option& required();
  Option& check(Check const& check);

 private:
  void* option_;
};

/// A program's command line, or that of one of its subcommands.
class CommandLine {
 public:
  CommandLine(std::string const& description, std::string const& name, std::string const& version);
  ~CommandLine();
  CommandLine(CommandLine const&) = delete;
  CommandLine& operator=(CommandLine const&) = delete;

  /// Lives as long as this. From then on one subcommand has to be given.
  CommandLine& add_subcommand(std::string const& name, std::string const& description);

  Option add_option(std::string const& name, std::string& value, std::string const& help = {});
  Option add_option(std::string const& name, std::uint32_t& value, std::string const& help = {});
  Option add_option(std::string const& name, std::uint64_t& value, std::string const& help = {});
  Option add_option(std::string const& name, double& value, std::string const& help = {});
  Option add_option(std::string const& name, std::vector<double>& values,
                    std::string const& help = {});
  Option add_option(std::string const& name, std::vector<std::string>& values,
                    std::string const& help = {});
  Option add_option(std::string const& name, std::vector<std::uint32_t>& values,
                    std::string const& help = {});
  Option add_option(std::string const& name, std::vector<std::uint64_t>& values,
                    std::string const& help = {});
  /// "--name", or "--name,!--no-name" where it may be switched off, too.
  void add_flag(std::string const& name, bool& value, std::string const& help);

  /// Whether the program goes on; if not, its exit status is in `status`, and what there is to say
  /// has been printed.
  bool parse(int argc, char** argv, int& status);
  /// Whether this subcommand was given.
  [[nodiscard]] bool parsed() const;

 private:
  struct Parser;
  explicit CommandLine(std::unique_ptr<Parser> parser);
  std::unique_ptr<Parser> parser_;
};

}  // namespace perdure::bench
