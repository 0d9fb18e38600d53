package job

import (
	"path"
	"strings"
)

// A StagedFile is a file that goes to the nodes before ranks start there (--stage).
type StagedFile struct {
	Name string // the last part of Path, and what it is called there
	Path string // on the launching machine, absolute
	Size int64
	Mode int // its owner's permission bits
}

// MaxStagedFiles is how many files one job may stage; a tree is packed first.
const MaxStagedFiles = 1024

// IsExecutable reports whether the file may be executed.
func (p StagedFile) IsExecutable() bool { return p.Mode&0o100 != 0 }

// FindStagedFile is the parcel that a program means, if any: a bare word by its name, as if the
// parcels stood in front of PATH, and a path if it leads, from one of these directories,
// to where the parcel is on the launching machine.
func FindStagedFile(program string, parcels []StagedFile, dirs ...string) (StagedFile, bool) {
	for _, p := range parcels {
		if program == p.Name || refersTo(program, p.Path, dirs) {
			return p, true
		}
	}
	return StagedFile{}, false
}

// refersTo reports whether a path with a slash in it leads to a file, from here or there.
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
