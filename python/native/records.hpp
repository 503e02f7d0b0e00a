// Plain C++ structs as read-only Python records: named fields, a repr, and `_fields`, from which
// Python makes dictionaries (perdure._records.as_dict), so that JSON never lists fields by hand.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

namespace perdure::python {

namespace nb = nanobind;

template <class T>
class Record {
 public:
  Record(nb::module_& module, char const* name) : class_(module, name) {
    class_.def("__repr__", [title = std::string(name)](nb::handle self) {
      std::string text = title + "(";
      char const* comma = "";
      for (nb::handle field : self.type().attr("_fields")) {
        text += comma + std::string(nb::str(field).c_str()) + "=" + nb::repr(self.attr(nb::str(field))).c_str();
        comma = ", ";
      }
      return text + ")";
    });
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
