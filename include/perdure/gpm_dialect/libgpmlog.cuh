// perdure/libgpm.cuh by the name of the published header of logs, with the namespace that programs
// count on.
#pragma once

#include <time.h>

#include <iostream>

#include "perdure/libgpm.cuh"

using namespace std;
