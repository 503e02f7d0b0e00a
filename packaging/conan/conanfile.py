"""Perdure as a package of Conan 2, from this checkout.

    conan create packaging/conan --build=missing
    conan create packaging/conan -o "&:system_deps=True"     with the distribution's libraries

With `system_deps` Highway, ISA-L and liburing are those that are installed (apt-get install
libhwy-dev libisal-dev liburing-dev); else they come from ConanCenter.
"""

from __future__ import annotations

import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


class Perdure(ConanFile):
    name = "perdure"
    description = "A durable key-value engine for GPUs and CPU SIMD warps"
    license = "Apache-2.0"
    topics = ("key-value", "persistent-memory", "gpu", "simd")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {  # noqa: RUF012  (Conan's form)
        "shared": [True, False],
        "fPIC": [True, False],
        "cuda": [True, False],
        "system_deps": [True, False],
    }
    default_options = {  # noqa: RUF012
        "shared": False,
        "fPIC": True,
        "cuda": False,
        "system_deps": False,
    }

    def set_version(self):
        text = load(self, os.path.join(ROOT, "CMakeLists.txt"))
        self.version = re.search(r"project\(PERDURE VERSION ([0-9.]+)", text)[1]

    def export_sources(self):
        for one in ("CMakeLists.txt", "LICENSE", "NOTICE"):
            copy(self, one, ROOT, self.export_sources_folder)
        for folder in ("cmake", "include", "src"):
            copy(self, "*", os.path.join(ROOT, folder), f"{self.export_sources_folder}/{folder}")

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os != "Linux" or self.settings.arch != "x86_64":
            raise ConanInvalidConfiguration("perdure runs on Linux on x86-64")

    def requirements(self):
        if not self.options.system_deps:
            self.requires("highway/1.2.0")
            self.requires("isa-l/2.31.0")
            self.requires("liburing/2.7")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update(
            {
                "PERDURE_CUDA": "ON" if self.options.cuda else "OFF",
                "PERDURE_SHARED": bool(self.options.shared),
                "PERDURE_ROCKS": "OFF",
                "PERDURE_SERVE": "OFF",
                "PERDURE_TOGETHER": True,
                "CMAKE_INSTALL_LIBDIR": "lib",
            }
            | {f"PERDURE_{part}": False for part in ("BENCH", "TESTS", "EXAMPLES", "PYTHON")}
        )
        toolchain.generate()
        CMakeDeps(self).generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        for one in ("LICENSE", "NOTICE"):
            copy(self, one, self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install(component="cpp")
        # Users have the config that Conan makes: ours looks for the libraries by itself.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "perdure")
        self.cpp_info.set_property("cmake_target_name", "perdure::perdure")
        self.cpp_info.set_property("pkg_config_name", "perdure")
        self.cpp_info.libs = ["perdure"]
        self.cpp_info.system_libs = ["pthread"]
        if self.options.cuda:
            self.cpp_info.system_libs += ["cudart_static", "dl", "rt"]
        if self.options.system_deps and not self.options.shared:
            self.cpp_info.system_libs += ["hwy_contrib", "hwy", "isal", "uring"]
