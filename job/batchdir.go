package job

import "strings"

// A BatchDir is a directory that a batch system creates for a job on each node, such as HTCondor's scratch directory.
// It has a different path on each node. The zero value means that there is no such directory.
type BatchDir struct {
	LocalPath string // its absolute path on this machine
	NodePath  string // its absolute path on the node
}

// Translate replaces the path LocalPath in text with NodePath, also where it is the beginning of a longer path. With
// LocalPath "/scratch", it changes "/scratch/x", but neither "/scratch2" nor "/tmp/scratch".
func (d BatchDir) Translate(text string) string {
	if d.LocalPath == "" || d.LocalPath == d.NodePath {
		return text
	}
	var renamed strings.Builder
	for done := 0; ; {
		at := strings.Index(text[done:], d.LocalPath)
		if at < 0 {
			renamed.WriteString(text[done:])
			return renamed.String()
		}
		at += done
		end := at + len(d.LocalPath)
		name := d.LocalPath
		if (at == 0 || !isNameByte(text[at-1])) && (end == len(text) || text[end] == '/' || !isNameByte(text[end])) {
			name = d.NodePath
		}
		renamed.WriteString(text[done:at] + name)
		done = end
	}
}

// TranslateAll returns texts with Translate applied to each text. It does not change its argument.
func (d BatchDir) TranslateAll(texts []string) []string {
	if d.LocalPath == "" || d.LocalPath == d.NodePath {
		return texts
	}
	renamed := make([]string, len(texts))
	for i, text := range texts {
		renamed[i] = d.Translate(text)
	}
	return renamed
}

// TranslateEnv returns e with Translate applied to DirVars and Set.
func (d BatchDir) TranslateEnv(e Env) Env {
	e.DirVars, e.Set = d.TranslateAll(e.DirVars), d.TranslateAll(e.Set)
	return e
}

// TranslateApp returns a with Translate applied to its command line, directories and environment.
func (d BatchDir) TranslateApp(a App) App {
	a.Argv, a.Dir, a.Env = d.TranslateAll(a.Argv), d.Translate(a.Dir), d.TranslateEnv(a.Env)
	a.SearchBefore, a.SearchAfter = d.TranslateAll(a.SearchBefore), d.TranslateAll(a.SearchAfter)
	return a
}

// isNameByte reports whether c can be part of a path name. All other bytes separate names.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 || strings.IndexByte("/._-+@%", c) >= 0
}
