"""The logger `perdure`. Invariant: without a handler of the user's, it prints nothing."""

from __future__ import annotations

import logging

logger = logging.getLogger("perdure")
logger.addHandler(logging.NullHandler())
debug, info, warning, error = logger.debug, logger.info, logger.warning, logger.error
