package message

import "strings"

// A Cleanup lists the files to remove when a rank has ended (pmix-wire.md 6.14). The paths are as the rank sent
// them and must not be trusted.
type Cleanup struct {
	Files    []string
	Dirs     []string
	Recurse  bool     // also remove the contents of Dirs
	Ignore   []string // paths not to remove
	KeepDirs bool     // do not remove Dirs themselves
}

// Cleanup returns the files that the request asks to remove. all is false if the request also asks for
// something else, such as to end processes.
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

// appendPaths appends the paths in list, which are separated by commas, to paths.
func appendPaths(paths []string, list string) []string {
	for path := range strings.SplitSeq(list, ",") {
		if path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}
