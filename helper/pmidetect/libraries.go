package pmidetect

import (
	"io"
	"path"
	"slices"
	"strings"
)

// These are limits for the number of files and paths that are tried for one program (rule PMIX-2). When a
// limit is reached, the result is based on what was found until then.
const (
	maxFiles      = 512
	maxPathsTried = 1 << 16 // paths
)

// defaultDirs lists the directories in which the dynamic loader always looks for libraries (ld.so(8)), and directories
// that most distributions add.
const defaultDirs = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:" +
	"/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/lib64:/usr/local/lib"

// A librarySearch is the state of the search for the libraries that one program needs.
type librarySearch struct {
	Search
	files      Files
	pathsTried int // number of paths tried
	finding    Finding
	mpichFiles []string // files of the libraries of MPICH's family
}

// A loadedObject is a program or library, together with the directories to search for the libraries that it
// needs.
type loadedObject struct {
	*object
	searchDirs []string
}

// examineProgram examines a program and all libraries on which it depends, and returns what it has found.
func examineProgram(files Files, f File, program string, env Search) Finding {
	o, err := readObject(f)
	if err != nil {
		return Finding{Kind: kindOf(f)}
	}
	if !o.isDynamic() {
		knows := o.contains(f, "PMIX_NAMESPACE", "PMI_FD")
		return Finding{Kind: Static, HasPMIxVariable: knows[0], HasPMIVariable: knows[1]}
	}
	s := &librarySearch{Search: env, files: files, finding: Finding{Kind: Dynamic}}
	s.finding.NeedsPMIx = slices.ContainsFunc(o.needed, func(name string) bool { return familyOf(name, nil) == pmix })
	s.followDependencies(loadedObject{o, s.searchDirsOf(o, files.Resolve(program))})
	if s.finding.MPICH != nil && s.finding.PMIx != nil {
		s.finding.MPICHHasPMI = slices.ContainsFunc(s.mpichFiles, s.supportsPMI)
	}
	return s.finding
}

// kindOf returns the kind of a program file that is not a 64-bit ELF file.
func kindOf(f io.ReaderAt) Kind {
	var head [2]byte
	n, err := f.ReadAt(head[:], 0)
	switch {
	case n == 2 && string(head[:]) == "#!":
		return Script
	case err != nil && err != io.EOF:
		return Unreadable
	}
	return Other
}

// followDependencies records all libraries on which a program depends, directly or indirectly. Indirect ones
// matter because some programs, such as those of OpenFOAM and code_saturne, are not themselves linked with
// MPI.
func (s *librarySearch) followDependencies(program loadedObject) {
	seen := make(map[string]bool)
	queue := []loadedObject{program}
	for at := 0; at < len(queue); at++ {
		for _, name := range queue[at].needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			file, o := s.locateLibrary(name, queue[at].searchDirs)
			s.recordLibrary(path.Base(name), file, o)
			if o != nil && len(queue) < maxFiles {
				queue = append(queue, loadedObject{o, s.searchDirsOf(o, file)})
			}
		}
	}
}

// searchDirsOf returns the directories to search for the libraries that an object needs, in the loader's order.
func (s *librarySearch) searchDirsOf(o *object, file string) []string {
	rpath := o.rpath
	if o.runpath != "" {
		rpath = ""
	}
	origin := path.Dir(file)
	own := strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin)
	all := strings.Join([]string{own.Replace(rpath), s.LibraryPath, own.Replace(o.runpath), defaultDirs}, ":")
	return strings.FieldsFunc(all, func(r rune) bool { return r == ':' })
}

// locateLibrary looks for a library in dirs, reads it, and returns its path and the object. A name with a slash is a
// path and not searched for in dirs. The object is nil if the library is not found.
func (s *librarySearch) locateLibrary(name string, dirs []string) (string, *object) {
	if strings.Contains(name, "/") {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		if s.pathsTried++; s.pathsTried > maxPathsTried {
			break
		}
		file := path.Join(dir, name)
		if !path.IsAbs(file) {
			file = path.Join(s.Dir, file)
		}
		f, err := s.files.Open(file)
		if err != nil {
			continue
		}
		o, err := readObject(f)
		f.Close()
		if err == nil {
			return file, o
		}
	}
	return "", nil
}

// recordLibrary records a library in the finding if the library belongs to a known family. If the library was
// not found, file is empty and o is nil.
func (s *librarySearch) recordLibrary(name, file string, o *object) {
	s.finding.UCX = s.finding.UCX || strings.HasPrefix(name, "libucp.so.")
	var first **Library
	switch familyOf(name, o) {
	case openMPI:
		first = &s.finding.OpenMPI
	case mpich:
		if first = &s.finding.MPICH; file != "" {
			s.mpichFiles = append(s.mpichFiles, file)
		}
	case pmix:
		first = &s.finding.PMIx
	default:
		return
	}
	if *first == nil || (*first).Path == "" && file != "" {
		*first = &Library{Name: name}
		if file != "" {
			(*first).Path = s.files.Resolve(file)
		}
	}
}

// supportsPMI reports whether a library of MPICH's family supports PMI-1 or PMI-2. If it does, its file contains
// "PMI_FD".
func (s *librarySearch) supportsPMI(file string) bool {
	f, err := s.files.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	o, err := readObject(f)
	return err == nil && o.contains(f, "PMI_FD")[0]
}
