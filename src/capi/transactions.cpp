// Transactions.
#include "capi/guard.hpp"
#include "capi/options.hpp"

namespace perdure::capi {
namespace {

/// call(Transaction&) on one that a caller has.
template <class Call>
perdure_code in_transaction(perdure_transaction* transaction, perdure_error** error, Call&& call) {
  return guarded(error, [&]() -> Status {
    if (transaction == nullptr) return no_argument("transaction");
    return call(*transaction->transaction);
  });
}

}  // namespace
}  // namespace perdure::capi

namespace capi = perdure::capi;

extern "C" {

perdure_code perdure_begin(perdure_store* store, perdure_transaction_options const* options,
                           perdure_transaction** transaction, perdure_error** error) {
  capi::clear(transaction);
  return capi::in_store(store, error, [&](perdure::Store& open) {
    return capi::make(transaction, "transaction",
                      [&](perdure_transaction& object) -> perdure::Status {
                        auto const made = capi::transaction_options(options);
                        if (!made.ok()) return made.status();
                        auto begun = open.begin(made.value());
                        if (!begun.ok()) return begun.status();
                        object.transaction.emplace(std::move(*begun));
                        return {};
                      });
  });
}

perdure_code perdure_commit(perdure_transaction* transaction, perdure_error** error) {
  return capi::in_transaction(transaction, error,
                              [](perdure::Transaction& t) { return t.commit(); });
}

perdure_code perdure_abort(perdure_transaction* transaction, perdure_error** error) {
  return capi::in_transaction(transaction, error,
                              [](perdure::Transaction& t) { return t.abort(); });
}

perdure_code perdure_revert(perdure_store* store, perdure_error** error) {
  return capi::in_store(store, error, [](perdure::Store& open) { return open.revert(); });
}

perdure_code perdure_can_revert(perdure_store* store, uint32_t* can, perdure_error** error) {
  return capi::in_store(store, error, [&](perdure::Store& open) -> perdure::Status {
    if (can == nullptr) return capi::no_argument("can");
    auto const answer = open.can_revert();
    if (answer.ok()) *can = answer.value() ? 1 : 0;
    return answer.status();
  });
}

void perdure_transaction_destroy(perdure_transaction* transaction) { delete transaction; }

}  // extern "C"
