// perdure/libgpm.cuh by the name of the published header of checkpoints.
#pragma once

#include <chrono>
#include <string>

#include "perdure/libgpm.cuh"
