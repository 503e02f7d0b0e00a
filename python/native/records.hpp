// Plain C++ structs as read-only Python records: named fields, a repr that can be read, and
// `as_dict()`, plain data for JSON. Invariant: whatever is a field is in all three, in the order of
// the fields.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

namespace perdure::python {

namespace nb = nanobind;

/// A record's fields and what they hold, nested records included: numbers, strings, lists and
/// dictionaries only.
nb::dict as_dict(nb::handle record);
/// The title and the fields, on one line where they are few, else a line each.
std::string shown(std::string const& title, nb::handle record);

/// The docstring of a record, by its name.
char const* doc_of(std::string_view record);

template <class T>
class Record {
 public:
  Record(nb::module_& module, char const* name) : class_(module, name, doc_of(name)) {
    class_.def("__repr__",
               [title = std::string(name)](nb::handle self) { return shown(title, self); });
    class_.def("as_dict", &as_dict,
               "The fields as plain data, for JSON: names of enums, dictionaries of records.");
  }

  template <class Field>
  Record& field(char const* name, Field T::* member) {
    class_.def_ro(name, member);
    names_.append(name);
    return *this;
  }

  /// A field of a group, as one of the record's own.
  template <class Group, class Field>
  Record& field(char const* name, Group T::* group, Field Group::* member) {
    return computed(name, [group, member](T const& self) { return self.*group.*member; });
  }

  template <class Get>
  Record& computed(char const* name, Get get) {
    class_.def_prop_ro(name, get);
    names_.append(name);
    return *this;
  }

  void done() { class_.attr("_fields") = nb::tuple(names_); }

 private:
  nb::class_<T> class_;
  nb::list names_;
};

void bind_records(nb::module_& module);

}  // namespace perdure::python
