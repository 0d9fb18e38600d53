package job

import (
	"path"
	"strings"
)

// A StagedFile is a file that is copied to the nodes before ranks start there (--stage).
type StagedFile struct {
	Name string // base name of Path, and the file's name on the nodes
	Path string // on the launching machine, absolute
	Size int64
	Mode int // permission bits of its owner
}

// MaxStagedFiles is the maximum number of files that one job may copy to nodes (--stage). A user with more files
// must pack them into an archive first.
const MaxStagedFiles = 1024

// IsExecutable reports whether the file has its owner's execute bit.
func (p StagedFile) IsExecutable() bool { return p.Mode&0o100 != 0 }

// FindStagedFile returns the staged file to which program refers. It returns false if there is none. A name without
// a slash matches a file's Name, as if the staged files came first in PATH. A path matches if it is the file's Path
// on the launching machine, directly or relative to one of dirs.
func FindStagedFile(program string, files []StagedFile, dirs ...string) (StagedFile, bool) {
	for _, p := range files {
		if program == p.Name || refersTo(program, p.Path, dirs) {
			return p, true
		}
	}
	return StagedFile{}, false
}

// refersTo reports whether program, which contains a slash, is the path of file, either directly or relative
// to one of dirs.
func refersTo(program, file string, dirs []string) bool {
	if path.IsAbs(program) {
		return path.Clean(program) == file
	}
	for _, dir := range dirs {
		if strings.Contains(program, "/") && path.IsAbs(dir) && path.Join(dir, program) == file {
			return true
		}
	}
	return false
}
