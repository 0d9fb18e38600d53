/*
Package pmidetect decides which PMI versions to offer to a program (pmix-wire.md 1). Programs of Open MPI use PMIx,
and programs of MPICH's family use PMI.

	program --readObject--> needed libraries --followDependencies--> Finding --Decide--> Verdict
	                        directories -------'

It looks for a program's libraries in the directories named by the program, by the libraries and by
LD_LIBRARY_PATH, and in the default directories. It runs no program. It reads files through the interface Files,
which Disk implements for the real file system. A program without an MPI library may load one later, or execute
another program, as a shell does. Such a program is offered both PMI and PMIx.
*/
package pmidetect

import (
	"fmt"
	"io"
	"path"
	"strings"

	"remshell/job"
)

// Files gives access to the files of a node.
type Files interface {
	// Open opens a regular file.
	Open(path string) (File, error)
	// Resolve returns path with symbolic links resolved, or path itself if that fails.
	Resolve(path string) string
}

// A File is an open file.
type File interface {
	io.ReaderAt
	io.Closer
	ID() (ID, error)
}

// An ID identifies a file and its contents. It changes when the file is replaced or modified.
type ID struct {
	Device, Inode  uint64
	Size, Modified int64 // bytes; ns since 1970
}

// A Search contains the settings of a rank that tell the dynamic loader where to look for libraries.
type Search struct {
	Dir         string // its working directory
	LibraryPath string // LD_LIBRARY_PATH
}

// SearchOf returns the Search for a rank with the given environment and working directory.
func SearchOf(env []string, dir string) Search {
	return Search{dir, job.EnvValue(env, "LD_LIBRARY_PATH")}
}

// A Library is an MPI or PMIx library that a program is linked with.
type Library struct {
	Name string // name in the list of needed libraries: "libmpi.so.40"
	Path string // path of the file, with symbolic links resolved; empty: not found
}

func (l Library) String() string {
	if l.Path == "" {
		return l.Name + " (not found on this host)"
	}
	return l.Name + " -> " + l.Path
}

// A Verdict says which PMI versions to offer to a program, and why.
type Verdict struct {
	Offer   job.PMIOffer
	Why     string // "script"; "libmpi.so.40 -> /usr/lib/libmpi.so.40.30.4, Open MPI"
	Library string // name of the library that decided; empty: none
	Family  string // name of its implementation: "Open MPI", "MPICH", "PMIx"

	MPI job.MPILibrary // the same library, in the form used to look up known faults
}

// UsesPMI reports whether the program is known to use PMI or PMIx. It returns false if both are offered only
// because nothing is known about the program.
func (v Verdict) UsesPMI() bool { return v.Library != "" || v.Offer != job.PMIOfferBoth }

func (v Verdict) String() string { return fmt.Sprintf("%s (%s)", v.Offer, v.Why) }

// A Detector computes Verdicts and caches them. Only one goroutine may use it.
type Detector struct {
	files Files
	cache map[cacheKey]Verdict
}

// A cacheKey is a key of a Detector's cache. It identifies a program and says where its libraries are searched for. A
// Detector does not notice that a library has changed.
type cacheKey struct {
	program ID
	path    string // path of the program, for $ORIGIN
	search  Search
}

// maxCached is the maximum number of Verdicts in the cache. A limit is needed because a job that spawns for days may
// use any number of programs.
const maxCached = 1024

// NewDetector returns a Detector that reads programs and libraries through files.
func NewDetector(files Files) *Detector {
	return &Detector{files: files, cache: make(map[cacheKey]Verdict)}
}

// Detect returns the Verdict for the program that execve would load from path.
func (d *Detector) Detect(path string, search Search) Verdict {
	f, err := d.files.Open(path)
	if err != nil {
		return verdictOf(Finding{Kind: Unreadable})
	}
	defer f.Close()
	id, err := f.ID()
	if err != nil {
		return verdictOf(Finding{Kind: Unreadable})
	}
	q := cacheKey{id, path, search}
	if known, ok := d.cache[q]; ok {
		return known
	}
	if len(d.cache) >= maxCached {
		clear(d.cache)
	}
	d.cache[q] = verdictOf(examineProgram(d.files, f, path, search))
	return d.cache[q]
}

func verdictOf(f Finding) Verdict {
	v := Verdict{Offer: Decide(f), Why: f.Kind.String()}
	var why []string
	for _, of := range []struct {
		family  string
		library *Library
	}{{"Open MPI", f.OpenMPI}, {"MPICH", f.MPICH}, {"PMIx", f.decidingPMIx()}} {
		if of.library == nil {
			continue
		}
		if v.Library == "" {
			v.Library, v.Family = of.library.Name, of.family
			v.MPI = job.MPILibrary{Family: of.family, File: strings.TrimPrefix(path.Base(of.library.Path), "."), UCX: f.UCX}
		}
		why = append(why, of.library.String()+", "+of.family)
	}
	switch {
	case why != nil:
		v.Why = strings.Join(why, "; ")
	case f.Kind == Static:
		v.Why += map[job.PMIOffer]string{job.PMIOfferPMIx: " with PMIx", job.PMIOfferPMI1: " with PMI-1", job.PMIOfferBoth: ", and no MPI library could be recognized in it"}[v.Offer]
	}
	return v
}
