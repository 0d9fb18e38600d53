package pmidetect

import (
	"io"
	"path"
	"slices"
	"strings"
)

// The most files and paths that are tried for one program (PMIX-2). After that, the result so far decides.
const (
	mostFiles = 512
	mostTried = 1 << 16 // paths
)

// usual has the directories in which the dynamic loader looks for every library (ld.so(8)), and those that most
// distributions add.
const usual = "/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:" +
	"/lib64:/usr/lib64:/lib:/usr/lib:/usr/local/lib64:/usr/local/lib"

// A search is the search for the libraries of one program.
type search struct {
	Search
	files Files
	tried int // number of paths tried
	found Finding
	mpich []string // files of the libraries of MPICH's family
}

// A mapped is a program or library, with the directories to search for the libraries that it needs.
type mapped struct {
	*object
	folders []string
}

// find examines a program and all libraries that it depends on.
func find(files Files, f File, program string, env Search) Finding {
	o, err := readObject(f)
	if err != nil {
		return Finding{Kind: kindOf(f)}
	}
	if !o.dynamic() {
		knows := o.contains(f, "PMIX_NAMESPACE", "PMI_FD")
		return Finding{Kind: Static, Namespace: knows[0], Socket: knows[1]}
	}
	s := &search{Search: env, files: files, found: Finding{Kind: Dynamic}}
	s.found.Direct = slices.ContainsFunc(o.needed, func(name string) bool { return familyOf(name, nil) == pmix })
	s.follow(mapped{o, s.foldersOf(o, files.Resolve(program))})
	if s.found.MPICH != nil && s.found.PMIx != nil {
		s.found.PMIWithin = slices.ContainsFunc(s.mpich, s.speaksPMI)
	}
	return s.found
}

// kindOf returns the kind of a file that is no 64-bit ELF file.
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

// follow notes all libraries that a program depends on, also indirectly: the programs of
// OpenFOAM and code_saturne do not name MPI themselves.
func (s *search) follow(program mapped) {
	seen := make(map[string]bool)
	queue := []mapped{program}
	for at := 0; at < len(queue); at++ {
		for _, name := range queue[at].needed {
			if seen[name] {
				continue
			}
			seen[name] = true
			file, o := s.locate(name, queue[at].folders)
			s.note(path.Base(name), file, o)
			if o != nil && len(queue) < mostFiles {
				queue = append(queue, mapped{o, s.foldersOf(o, file)})
			}
		}
	}
}

// foldersOf returns the directories to search for the libraries that an object needs, in the order of the loader.
func (s *search) foldersOf(o *object, file string) []string {
	rpath := o.rpath
	if o.runpath != "" {
		rpath = ""
	}
	origin := path.Dir(file)
	own := strings.NewReplacer("${ORIGIN}", origin, "$ORIGIN", origin)
	all := strings.Join([]string{own.Replace(rpath), s.LibraryPath, own.Replace(o.runpath), usual}, ":")
	return strings.FieldsFunc(all, func(r rune) bool { return r == ':' })
}

// locate finds and reads a library in these directories. If there is none, o is nil.
func (s *search) locate(name string, folders []string) (string, *object) {
	if strings.Contains(name, "/") {
		folders = []string{""}
	}
	for _, folder := range folders {
		if s.tried++; s.tried > mostTried {
			break
		}
		file := path.Join(folder, name)
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

// note records a library in the finding, if it has a family. If it was not found, file is empty and o is nil.
func (s *search) note(name, file string, o *object) {
	s.found.UCX = s.found.UCX || strings.HasPrefix(name, "libucp.so.")
	var first **Library
	switch familyOf(name, o) {
	case openMPI:
		first = &s.found.OpenMPI
	case mpich:
		if first = &s.found.MPICH; file != "" {
			s.mpich = append(s.mpich, file)
		}
	case pmix:
		first = &s.found.PMIx
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

// speaksPMI reports whether a library of MPICH's family supports PMI. One built only for PMIx does not.
func (s *search) speaksPMI(file string) bool {
	f, err := s.files.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	o, err := readObject(f)
	return err == nil && o.contains(f, "PMI_FD")[0]
}
