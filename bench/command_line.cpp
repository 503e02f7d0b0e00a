#include "command_line.hpp"

#include <CLI/CLI.hpp>

#include "failure.hpp"
#include "output.hpp"

namespace perdure::bench {

struct Check::Rule {
  CLI::Validator validator;
};

namespace {

Check as_check(CLI::Validator validator) {
  return Check(std::make_shared<Check::Rule const>(Check::Rule{std::move(validator)}));
}

CLI::Option& cli11(void* option) { return *static_cast<CLI::Option*>(option); }

}  // namespace

Check range(int low, int high) { return as_check(CLI::Range(low, high)); }
Check range(std::uint32_t low, std::uint32_t high) { return as_check(CLI::Range(low, high)); }
Check range(double low, double high) { return as_check(CLI::Range(low, high)); }
Check positive() { return as_check(CLI::PositiveNumber); }
Check non_negative() { return as_check(CLI::NonNegativeNumber); }
Check new_file() {
  return as_check(CLI::Validator([](std::string& path) { return why_not_new(path); }, "NEW FILE"));
}
Check one_of(std::vector<std::string> const& names) { return as_check(CLI::IsMember(names)); }
Check one_of(std::initializer_list<char const*> names) {
  return one_of(std::vector<std::string>(names.begin(), names.end()));
}
Check one_of(std::initializer_list<std::uint32_t> numbers) {
  return as_check(CLI::IsMember(std::vector<std::uint32_t>(numbers)));
}

Option& Option::shows_default() {
  cli11(option_).capture_default_str();
  return *this;
}

Option& Option::separated_by(char delimiter) {
  cli11(option_).delimiter(delimiter);
  return *this;
}

Option& Option::required() {
  cli11(option_).required();
  return *this;
}

Option& Option::check(Check const& check) {
  cli11(option_).check(check.rule().validator);
  return *this;
}

struct CommandLine::Parser {
  std::unique_ptr<CLI::App> own;  // of a program; a subcommand's belongs to its program's
  CLI::App* app = nullptr;
  std::vector<std::unique_ptr<CommandLine>> subcommands;

  template <class T>
  Option add(std::string const& name, T& value, std::string const& help) {
    return Option(app->add_option(name, value, help));
  }
};

CommandLine::CommandLine(std::string const& description, std::string const& name,
                         std::string const& version)
    : parser_(std::make_unique<Parser>()) {
  parser_->own = std::make_unique<CLI::App>(description, name);
  parser_->app = parser_->own.get();
  parser_->app->set_version_flag("--version", version);
}
CommandLine::CommandLine(std::unique_ptr<Parser> parser) : parser_(std::move(parser)) {}
CommandLine::~CommandLine() = default;

CommandLine& CommandLine::add_subcommand(std::string const& name, std::string const& description) {
  parser_->app->require_subcommand(1);
  auto parser = std::make_unique<Parser>();
  parser->app = parser_->app->add_subcommand(name, description);
  parser_->subcommands.push_back(std::unique_ptr<CommandLine>(new CommandLine(std::move(parser))));
  return *parser_->subcommands.back();
}

Option CommandLine::add_option(std::string const& name, std::string& value,
                               std::string const& help) {
  return parser_->add(name, value, help);
}
Option CommandLine::add_option(std::string const& name, std::uint32_t& value,
                               std::string const& help) {
  return parser_->add(name, value, help);
}
Option CommandLine::add_option(std::string const& name, std::uint64_t& value,
                               std::string const& help) {
  return parser_->add(name, value, help);
}
Option CommandLine::add_option(std::string const& name, double& value, std::string const& help) {
  return parser_->add(name, value, help);
}
Option CommandLine::add_option(std::string const& name, std::vector<double>& values,
                               std::string const& help) {
  return parser_->add(name, values, help);
}
Option CommandLine::add_option(std::string const& name, std::vector<std::string>& values,
                               std::string const& help) {
  return parser_->add(name, values, help);
}
Option CommandLine::add_option(std::string const& name, std::vector<std::uint32_t>& values,
                               std::string const& help) {
  return parser_->add(name, values, help);
}
Option CommandLine::add_option(std::string const& name, std::vector<std::uint64_t>& values,
                               std::string const& help) {
  return parser_->add(name, values, help);
}

void CommandLine::add_flag(std::string const& name, bool& value, std::string const& help) {
  parser_->app->add_flag(name, value, help);
}

bool CommandLine::parse(int argc, char** argv, int& status) {
  try {
    parser_->app->parse(argc, argv);
    return true;
  } catch (CLI::ParseError const& error) {
    status = parser_->app->exit(error) == 0 ? kGood : kUsage;
    return false;
  }
}

bool CommandLine::parsed() const { return parser_->app->parsed(); }

}  // namespace perdure::bench
