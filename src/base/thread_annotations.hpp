// What clang checks of locks when it compiles (-Wthread-safety; scripts/thread_safety.py): which
// lock guards which data, and which function needs, takes or releases one. Other compilers see
// nothing. Macros, for attributes have no other form that a compiler which lacks them passes over.
#pragma once

#if defined(__clang__) && !defined(__CUDACC__)
#define PERDURE_THREAD_ANNOTATION(...) __attribute__((__VA_ARGS__))
#else
#define PERDURE_THREAD_ANNOTATION(...)
#endif

// Of a class: it is a lock, or holds one for as long as it stands.
#define PERDURE_CAPABILITY(name) PERDURE_THREAD_ANNOTATION(capability(name))
#define PERDURE_SCOPED_CAPABILITY PERDURE_THREAD_ANNOTATION(scoped_lockable)
// Of data: touched only by who holds the lock. Of a pointer: what it points to.
#define PERDURE_GUARDED_BY(lock) PERDURE_THREAD_ANNOTATION(guarded_by(lock))
#define PERDURE_PT_GUARDED_BY(lock) PERDURE_THREAD_ANNOTATION(pt_guarded_by(lock))
// Of a lock: the order in which they are taken.
#define PERDURE_ACQUIRED_BEFORE(...) PERDURE_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
// Of a function: the caller holds the locks, or must not hold them; it takes them or lets them go.
#define PERDURE_REQUIRES(...) PERDURE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define PERDURE_EXCLUDES(...) PERDURE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define PERDURE_ACQUIRE(...) PERDURE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define PERDURE_TRY_ACQUIRE(...) PERDURE_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define PERDURE_RELEASE(...) PERDURE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
// It says that the caller holds the lock, where clang cannot see that: in a lambda.
#define PERDURE_ASSERT_CAPABILITY(lock) PERDURE_THREAD_ANNOTATION(assert_capability(lock))
// Of a function that is right for a reason which clang does not know; a comment gives it.
#define PERDURE_NO_THREAD_SAFETY_ANALYSIS PERDURE_THREAD_ANNOTATION(no_thread_safety_analysis)
