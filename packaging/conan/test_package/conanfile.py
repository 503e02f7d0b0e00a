"""Builds tests/package/found against the package, and runs it."""

from __future__ import annotations

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class Found(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps", "CMakeToolchain"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            pool = f"/dev/shm/perdure-conan-{os.getpid()}"
            try:
                self.run(
                    f"{os.path.join(self.build_folder, 'found', 'found')} {pool}", env="conanrun"
                )
            finally:
                if os.path.exists(pool):
                    os.unlink(pool)
