// A property with a number of inputs of its own; everything else is as RC_PARAMS says.
#pragma once

#include <rapidcheck.h>

#include <sstream>
#include <string>

namespace perdure::test {

enum class Shrink { yes, no };

/// What rapidcheck says of a property that does not hold for one of `inputs` inputs, or nothing.
template <class Property>
std::string counterexample(std::string const& name, int inputs, Property const& property,
                           Shrink shrink = Shrink::yes) {
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = name;
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = inputs;
  params.disableShrinking |= shrink == Shrink::no;
  auto const result = rc::detail::checkTestable(property, metadata, params);
  std::ostringstream why;
  if (!result.template is<rc::detail::SuccessResult>()) rc::detail::printResultMessage(result, why);
  return why.str();
}

}  // namespace perdure::test
