# An overlay port: it builds the checkout that it lies in.
#   vcpkg install perdure --overlay-ports=packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES cuda PERDURE_CUDA)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features}
    -DPERDURE_BENCH=OFF
    -DPERDURE_TESTS=OFF
    -DPERDURE_EXAMPLES=OFF
    -DPERDURE_PYTHON=OFF
    -DPERDURE_ROCKS=OFF
    -DPERDURE_SERVE=OFF
    -DPERDURE_SHARED=OFF
    -DPERDURE_TOGETHER=ON)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME perdure CONFIG_PATH lib/cmake/perdure)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/NOTICE")
