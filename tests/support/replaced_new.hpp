// The operators new and delete of a whole test program, which replaced_new.cpp is part of, and
// which says what fails. Invariant: while nothing is to fail, they behave as the standard ones do.
#pragma once

namespace perdure::test {

/// Asked at each allocation, in whatever thread. The program defines it.
[[nodiscard]] bool allocation_fails() noexcept;

}  // namespace perdure::test
