# SPDX-License-Identifier: BSD-3-Clause
# find_package(meander) for the installed library.

include(CMakePackageConfigHelpers)

set(meander_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/meander)
install(TARGETS meander EXPORT meanderTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
)
install(EXPORT meanderTargets NAMESPACE meander:: DESTINATION ${meander_config_dir})
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/meanderConfig.cmake.in ${PROJECT_BINARY_DIR}/meanderConfig.cmake
  INSTALL_DESTINATION ${meander_config_dir}
)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/meanderConfigVersion.cmake COMPATIBILITY SameMinorVersion
)
install(FILES ${PROJECT_BINARY_DIR}/meanderConfig.cmake ${PROJECT_BINARY_DIR}/meanderConfigVersion.cmake
        DESTINATION ${meander_config_dir})
