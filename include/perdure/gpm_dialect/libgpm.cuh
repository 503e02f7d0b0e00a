// perdure/libgpm.cuh by the name of the published header.
#pragma once

#include "perdure/libgpm.cuh"
