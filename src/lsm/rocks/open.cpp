#include "perdure/rocks.h"
