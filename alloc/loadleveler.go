package alloc

// The lists of LoadLeveler are not read yet.
var loadLeveler = manager{
	name:   "ll",
	job:    []string{"LOADL_STEP_ID"},
	unread: []string{"LOADL_HOSTFILE", "LOADL_PROCESSOR_LIST"},
}
