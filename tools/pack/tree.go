package main

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A tree is files by their names, which have no slash in front.
type tree map[string]file

// A file is one of a tree: a program, a text, a link, or a folder that may stay empty.
type file struct {
	data   []byte
	mode   int64
	link   string // where it leads; empty: it is no link
	folder bool
}

func program(data []byte) file { return file{data: data, mode: 0o755} }
func plain(data []byte) file   { return file{data: data, mode: 0o644} }
func link(to string) file      { return file{link: to, mode: 0o777} }

// names are the keys of a map, sorted.
func names[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// below moves a tree into a folder.
func below(top string, t tree) tree {
	moved := make(tree, len(t))
	for name, f := range t {
		moved[top+"/"+name] = f
	}
	return moved
}

// documents are the texts for people: those at the root of the sources, and doc/.
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

// portable is the tree of an archive, to be unpacked anywhere.
func portable(t target, programs map[target][]byte, texts, generated map[string][]byte) tree {
	files := tree{
		"bin/mpiexec": program(programs[t]),
		"bin/mpirun":  link("mpiexec"),
	}
	helpers(files, "", t, programs)
	for name, data := range texts {
		files["share/doc/remshell/"+strings.TrimPrefix(name, "doc/")] = plain(data)
	}
	for name, data := range generated {
		files["share/"+name] = plain(data)
	}
	return files
}

// helpers adds mpiexec for the nodes of other systems, where package transport looks for it.
func helpers(files tree, prefix string, own target, programs map[target][]byte) {
	for t, data := range programs {
		if t != own && t.os == "linux" {
			files[prefix+"libexec/remshell/mpiexec-"+t.String()] = program(data)
		}
	}
}

// owner is the head of a package's file of copyrights.
const owner = "Remshell is copyright the Remshell authors, under the Apache License, version 2.0.\n\n"

// installed is the tree of a package. The names that mpich and openmpi-bin have as well come
// and go by update-alternatives (linux.go).
func installed(kind string, t target, programs map[target][]byte, texts, generated map[string][]byte) tree {
	files := tree{
		"usr/bin/mpiexec.remshell": program(programs[t]),
		"usr/bin/mpirun.remshell":  link("mpiexec.remshell"),
	}
	helpers(files, "usr/", t, programs)
	for name, data := range texts {
		files["usr/share/doc/remshell/"+strings.TrimPrefix(name, "doc/")] = plain(data)
	}
	files["usr/share/doc/remshell/copyright"] = plain(slices.Concat([]byte(owner), texts["LICENSE"], texts[noticesFile]))
	for name, data := range generated {
		if strings.HasPrefix(name, "man/") {
			files["usr/share/man/man1/mpiexec.remshell.1.gz"] = plain(gzipped(data))
			files["usr/share/man/man1/mpirun.remshell.1.gz"] = link("mpiexec.remshell.1.gz")
			continue
		}
		files[completion(name)] = plain(data)
	}
	switch kind {
	case "deb":
		for _, s := range slaves(kind, files) { // update-alternatives makes links, but no folders
			files[above(s[0])[1:]] = file{folder: true}
		}
	case "rpm": // which removes the folders that it is told of, and no others
		for _, name := range names(files) {
			for dir := above(name); strings.Contains(dir, "/remshell"); dir = above(dir) {
				files[dir] = file{folder: true}
			}
		}
	}
	return files
}

// completion is where the package keeps a completion: those of mpiexec's own name hold
// only while that name is ours.
func completion(name string) string {
	return "usr/share/remshell/" + strings.ReplaceAll(name, "/", ".")
}
