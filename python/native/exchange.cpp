#include "exchange.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <type_traits>

namespace perdure::python {

namespace {

// What DLPack 1.3 fixes, which nanobind's headers have in part.
struct Version {
  std::uint32_t major, minor;
};
struct Managed {
  Version version;
  void* context;
  void (*deleter)(Managed*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};
struct Functions {
  Version version;
  Functions const* older;
  void* make;
  int (*lend)(PyObject* array, Managed** lent);
  void* to_python;
  int (*look)(PyObject* array, nb::dlpack::dltensor* seen);  // or null
  int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** stream);
};
static_assert(std::is_standard_layout_v<Functions> && sizeof(Functions) == 7 * sizeof(void*));
static_assert(sizeof(nb::dlpack::dltensor) == 48 && sizeof(Managed) == 80);

constexpr char const* kFunctions = "dlpack_exchange_api";
constexpr char const* kLent = "dltensor_versioned";
constexpr std::uint32_t kMajor = 1;
constexpr std::uintptr_t kLegacyStream = 1;  // as DLPack and CUDA both name it

/// Those of a type by itself: a subclass may lend otherwise than its base says.
Functions const* ask(nb::handle type) {
  nb::object const own = nb::getattr(type, "__dict__", nb::none());
  if (own.is_none() || !nb::cast<bool>(own.attr("__contains__")("__dlpack_c_exchange_api__")))
    return nullptr;
  nb::object const capsule = own["__dlpack_c_exchange_api__"];
  if (PyCapsule_IsValid(capsule.ptr(), kFunctions) == 0) return nullptr;
  auto const* found =
      static_cast<Functions const*>(PyCapsule_GetPointer(capsule.ptr(), kFunctions));
  while (found != nullptr && found->version.major > kMajor) found = found->older;
  return found != nullptr && found->version.major == kMajor ? found : nullptr;
}

/// Asked once of the type that was asked last; it is kept, so that no other comes to lie there.
Functions const* functions_of(nb::handle array) {
  struct Known {
    PyObject* type;
    Functions const* functions;
  };
  static Known known{};  // with the GIL
  nb::handle const type = array.type();
  if (type.ptr() == known.type) return known.functions;
  Functions const* const found = ask(type);
  if (found == nullptr) return nullptr;  // NumPy's and lists are many, and not worth keeping
  Py_XDECREF(known.type);
  known = {nb::borrow(type).release().ptr(), found};
  return found;
}

bool on_cuda(nb::dlpack::dltensor const& tensor) {
  return tensor.device.device_type == nb::device::cuda::value ||
         tensor.device.device_type == nb::device::cuda_managed::value;
}

/// The store's GPU is the process's first.
bool is_near(nb::dlpack::dltensor const& tensor) {
  if (on_cuda(tensor)) return tensor.device.device_id == 0;
  return tensor.device.device_type == nb::device::cpu::value ||
         tensor.device.device_type == nb::device::cuda_host::value;
}

std::optional<std::uintptr_t> stream_of(Functions const& functions,
                                        nb::dlpack::dltensor const& tensor) {
  if (!on_cuda(tensor)) return 0;
  void* stream = nullptr;
  if (functions.current_stream(tensor.device.device_type, tensor.device.device_id, &stream) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return stream == nullptr ? kLegacyStream : reinterpret_cast<std::uintptr_t>(stream);
}

/// PyTorch's functions lend what `__dlpack__` refuses: a tensor whose gradient is asked for.
bool wants_gradient(nb::handle array) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");  // made once
  PyObject* const asked = PyObject_GetAttr(array.ptr(), name);
  if (asked == nullptr) PyErr_Clear();
  bool const wants = asked == Py_True;
  Py_XDECREF(asked);
  return wants;
}

void give_back(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kLent) == 0) return;  // it was taken over
  auto* const lent = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kLent));
  if (lent->deleter != nullptr) lent->deleter(lent);
}

}  // namespace

std::optional<std::uintptr_t> work_stream(nb::handle array) {
  Functions const* const functions = functions_of(array);
  if (functions == nullptr || functions->look == nullptr) return std::nullopt;
  nb::dlpack::dltensor seen;
  if (functions->look(array.ptr(), &seen) != 0) {
    PyErr_Clear();
    return std::nullopt;
  }
  return is_near(seen) ? stream_of(*functions, seen) : std::nullopt;
}

nb::object exchanged(nb::handle array, std::uintptr_t stream) {
  Functions const* const functions = functions_of(array);
  if (functions == nullptr || wants_gradient(array)) return nb::none();
  Managed* lent = nullptr;
  if (functions->lend(array.ptr(), &lent) != 0) {
    PyErr_Clear();
    return nb::none();
  }
  PyObject* const capsule = PyCapsule_New(lent, kLent, give_back);
  if (capsule == nullptr) {
    if (lent->deleter != nullptr) lent->deleter(lent);
    nb::raise_python_error();
  }
  nb::object kept = nb::steal(capsule);
  bool const complex =  // which may be conjugated, and then lie as something else
      lent->tensor.dtype.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Complex);
  bool const ready = is_near(lent->tensor) &&
                     (!on_cuda(lent->tensor) || stream_of(*functions, lent->tensor) == stream);
  return ready && !complex && lent->version.major == kMajor ? kept : nb::none();
}

void bind_exchange(nb::module_& module) {
  module.def("work_stream", &work_stream, nb::arg("array").none());
}

}  // namespace perdure::python
