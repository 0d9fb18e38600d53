package message

import "strings"

// A Cleanup says what files of a rank are to be removed when it has ended (pmix-wire.md 6.14).
// The paths are as the rank has written them: nothing about them is to be believed.
type Cleanup struct {
	Files    []string
	Dirs     []string
	Recurse  bool     // what is in the directories, too
	Ignore   []string // but not these
	KeepDirs bool     // nor the directories themselves
}

// Cleanup returns what is to be removed, and whether that is all that is asked: processes are
// not ended or stopped by ranks.
func (j *JobControl) Cleanup() (c Cleanup, all bool) {
	all = true
	for _, directive := range j.Directives {
		paths, isText := directive.Value.Text()
		switch directive.Key {
		case "pmix.reg.cleanup":
			c.Files = appendPaths(c.Files, paths)
		case "pmix.reg.cleanupdir":
			c.Dirs = appendPaths(c.Dirs, paths)
		case "pmix.clnup.ignore":
			c.Ignore = appendPaths(c.Ignore, paths)
		case "pmix.clnup.recurse":
			c.Recurse, isText = directive.Value.Flag(), true
		case "pmix.clnup.leave":
			c.KeepDirs, isText = directive.Value.Flag(), true
		default:
			isText = false
		}
		all = all && isText
	}
	return c, all
}

// appendPaths adds the paths of a list with commas.
func appendPaths(paths []string, list string) []string {
	for path := range strings.SplitSeq(list, ",") {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}
