package job

import "strings"

// A Folder is one that a batch system has made on each node for the job, under different names (HTCondor's scratch
// directory). The zero value is none.
type Folder struct {
	Here  string // its absolute name on this machine
	There string // its absolute name on a node
}

// Rename puts the folder's name on a node in the place of its name here, wherever that stands as a name of its own or
// before a slash.
func (f Folder) Rename(text string) string {
	if f.Here == "" || f.Here == f.There {
		return text
	}
	var renamed strings.Builder
	for done := 0; ; {
		at := strings.Index(text[done:], f.Here)
		if at < 0 {
			renamed.WriteString(text[done:])
			return renamed.String()
		}
		at += done
		end := at + len(f.Here)
		name := f.Here
		if (at == 0 || !inName(text[at-1])) && (end == len(text) || text[end] == '/' || !inName(text[end])) {
			name = f.There
		}
		renamed.WriteString(text[done:at] + name)
		done = end
	}
}

// RenameAll is Rename for each of some texts.
func (f Folder) RenameAll(texts []string) []string {
	if f.Here == "" || f.Here == f.There {
		return texts
	}
	renamed := make([]string, len(texts))
	for i, text := range texts {
		renamed[i] = f.Rename(text)
	}
	return renamed
}

// Env is an environment as it is on the node.
func (f Folder) Env(e Env) Env {
	e.Dirs, e.Set = f.RenameAll(e.Dirs), f.RenameAll(e.Set)
	return e
}

// App is a program as it starts on the node.
func (f Folder) App(a App) App {
	a.Argv, a.Dir, a.Env = f.RenameAll(a.Argv), f.Rename(a.Dir), f.Env(a.Env)
	a.Path, a.Behind = f.RenameAll(a.Path), f.RenameAll(a.Behind)
	return a
}

// inName reports whether a byte may be in the middle of a file's name, as far as names are told from what is around them.
func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 || strings.IndexByte("/._-+@%", c) >= 0
}
