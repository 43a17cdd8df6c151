"""Records of one kernel from several inputs become one."""
