package main

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A tree maps names to files. Names do not begin with a slash.
type tree map[string]file

// A file is an entry of a tree: a program, a text file, a symbolic link or a directory.
type file struct {
	data   []byte
	mode   int64
	link   string // target of the symbolic link; "": not a link
	folder bool
}

func program(data []byte) file { return file{data: data, mode: 0o755} }
func plain(data []byte) file   { return file{data: data, mode: 0o644} }
func link(target string) file  { return file{link: target, mode: 0o777} }

// names returns the keys of m in sorted order.
func names[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// below returns a tree with all files of t, moved into the directory top.
func below(top string, t tree) tree {
	moved := make(tree, len(t))
	for name, f := range t {
		moved[top+"/"+name] = f
	}
	return moved
}

// documents returns the documents in the directory root: README.md, CHANGELOG.md, LICENSE and all files of doc/.
func documents(root string) (map[string][]byte, error) {
	texts := make(map[string][]byte)
	for _, name := range []string{"README.md", "CHANGELOG.md", "LICENSE"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		texts[name] = data
	}
	doc := os.DirFS(root)
	err := fs.WalkDir(doc, "doc", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		texts[path], err = fs.ReadFile(doc, path)
		return err
	})
	return texts, err
}

// frontEnds are the other names under which mpiexec can be called. Each has a command-line syntax of its own. They are
// installed as links. No other package uses these names, so update-alternatives is not needed.
var frontEnds = []string{"aprun", "mpijob"}

// completionsOf maps the generated completion files of bash and fish to the files in which these shells look for the
// completions of a front end (another name of mpiexec). The front end's files are installed as links. zsh finds the
// completions of all names in one file.
func completionsOf(name string, generated map[string][]byte) map[string]string {
	found := make(map[string]string)
	for of := range generated {
		if strings.HasPrefix(of, "bash-completion/") || strings.HasPrefix(of, "fish/") {
			found[of] = strings.Replace(of, "mpiexec", name, 1)
		}
	}
	return found
}

// portable returns the tree of an archive, which can be unpacked into any directory.
func portable(t target, programs map[target][]byte, texts, generated map[string][]byte) tree {
	files := tree{
		"bin/mpiexec": program(programs[t]),
		"bin/mpirun":  link("mpiexec"),
	}
	helpers(files, "", t, programs)
	for _, name := range frontEnds {
		files["bin/"+name] = link("mpiexec")
		for of, file := range completionsOf(name, generated) {
			files["share/"+file] = link(path.Base(of))
		}
	}
	for name, data := range texts {
		files["share/doc/remshell/"+strings.TrimPrefix(name, "doc/")] = plain(data)
	}
	for name, data := range generated {
		files["share/"+name] = plain(data)
	}
	return files
}

// helpers adds mpiexec for Linux nodes of other architectures to a tree. It puts the programs into the directory below
// prefix in which package transport looks for them.
func helpers(files tree, prefix string, mpiexecTarget target, programs map[target][]byte) {
	for t, data := range programs {
		if t != mpiexecTarget && t.os == "linux" {
			files[prefix+"libexec/remshell/mpiexec-"+t.String()] = program(data)
		}
	}
}

// owner is the first line of a package's copyright file.
const owner = "Remshell is copyright the Remshell authors, under the Apache License, version 2.0.\n\n"

// installed returns the files of a package as a tree. kind is deb or rpm. It leaves out the names that mpich and
// openmpi-bin also use, because update-alternatives makes links with these names (linux.go).
func installed(kind string, t target, programs map[target][]byte, texts, generated map[string][]byte) tree {
	files := tree{
		"usr/bin/mpiexec.remshell": program(programs[t]),
		"usr/bin/mpirun.remshell":  link("mpiexec.remshell"),
	}
	helpers(files, "usr/", t, programs)
	for _, name := range frontEnds {
		files["usr/bin/"+name] = link("mpiexec.remshell")
		for of, file := range completionsOf(name, generated) {
			files["usr/share/"+file] = link("../../" + strings.TrimPrefix(completion(of), "usr/share/"))
		}
	}
	for name, data := range texts {
		files["usr/share/doc/remshell/"+strings.TrimPrefix(name, "doc/")] = plain(data)
	}
	files["usr/share/doc/remshell/copyright"] = plain(slices.Concat([]byte(owner), texts["LICENSE"], texts[noticesFile]))
	for name, data := range generated {
		switch {
		case name == "man/man1/mpiexec.1":
			files["usr/share/man/man1/mpiexec.remshell.1.gz"] = plain(gzipped(data))
			files["usr/share/man/man1/mpirun.remshell.1.gz"] = link("mpiexec.remshell.1.gz")
		case strings.HasPrefix(name, "man/"): // of a front end
			files["usr/share/"+name+".gz"] = plain(gzipped(data))
		default:
			files[completion(name)] = plain(data)
		}
	}
	switch kind {
	case "deb":
		for _, s := range slaves(kind, files) { // update-alternatives creates links, but not their folders
			files[above(s[0])[1:]] = file{folder: true}
		}
	case "rpm": // rpm removes only folders that the package lists
		for _, name := range names(files) {
			for dir := above(name); strings.Contains(dir, "/remshell"); dir = above(dir) {
				files[dir] = file{folder: true}
			}
		}
	}
	return files
}

// completion returns the path of a completion file in a package. The path is not in the directories in which shells
// look for completions. update-alternatives makes a link in one of these directories while the command mpiexec belongs
// to this package.
func completion(name string) string {
	return "usr/share/remshell/" + strings.ReplaceAll(name, "/", ".")
}
