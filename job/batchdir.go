package job

import "strings"

// A BatchDir is one that a batch system has made on each node for the job, under different names (HTCondor's scratch
// directory). The zero value is none.
type BatchDir struct {
	LocalPath string // its absolute name on this machine
	NodePath  string // its absolute name on a node
}

// Translate puts the folder's name on a node in the place of its name here, wherever that stands as a name of its own or
// before a slash.
func (f BatchDir) Translate(text string) string {
	if f.LocalPath == "" || f.LocalPath == f.NodePath {
		return text
	}
	var renamed strings.Builder
	for done := 0; ; {
		at := strings.Index(text[done:], f.LocalPath)
		if at < 0 {
			renamed.WriteString(text[done:])
			return renamed.String()
		}
		at += done
		end := at + len(f.LocalPath)
		name := f.LocalPath
		if (at == 0 || !isNameByte(text[at-1])) && (end == len(text) || text[end] == '/' || !isNameByte(text[end])) {
			name = f.NodePath
		}
		renamed.WriteString(text[done:at] + name)
		done = end
	}
}

// TranslateAll is Rename for each of some texts.
func (f BatchDir) TranslateAll(texts []string) []string {
	if f.LocalPath == "" || f.LocalPath == f.NodePath {
		return texts
	}
	renamed := make([]string, len(texts))
	for i, text := range texts {
		renamed[i] = f.Translate(text)
	}
	return renamed
}

// TranslateEnv is an environment as it is on the node.
func (f BatchDir) TranslateEnv(e Env) Env {
	e.DirVars, e.Set = f.TranslateAll(e.DirVars), f.TranslateAll(e.Set)
	return e
}

// TranslateApp is a program as it starts on the node.
func (f BatchDir) TranslateApp(a App) App {
	a.Argv, a.Dir, a.Env = f.TranslateAll(a.Argv), f.Translate(a.Dir), f.TranslateEnv(a.Env)
	a.SearchBefore, a.SearchAfter = f.TranslateAll(a.SearchBefore), f.TranslateAll(a.SearchAfter)
	return a
}

// isNameByte reports whether a byte may be in the middle of a file's name, as far as names are told from what is around them.
func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 || strings.IndexByte("/._-+@%", c) >= 0
}
