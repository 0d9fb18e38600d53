/*
Package pmidetect decides which PMI versions to offer to a program
(pmix-wire.md 1): programs of Open MPI use PMIx, those of MPICH's family PMI.

	program --readObject--> needed libraries --follow--> Finding --Decide--> Verdict
	                        directories -------'

It looks for a program's libraries in the directories named by the program, by the libraries and by LD_LIBRARY_PATH, and in
the default ones. It runs nothing. All but Disk works on files as values. A program without an MPI
library may load one later, or execute another program, as a shell does. It is offered both PMI and PMIx.
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

// An ID identifies a file and its contents: it changes when the file is replaced or modified.
type ID struct {
	Device, Inode  uint64
	Size, Modified int64 // bytes; ns since 1970
}

// A Search says where a rank's environment makes the loader look for libraries.
type Search struct {
	Dir         string // its working directory
	LibraryPath string // LD_LIBRARY_PATH
}

// SearchOf returns the Search for a rank with this environment that starts in dir.
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
		return l.Name + ", which is not found"
	}
	return l.Name + " -> " + l.Path
}

// A Verdict is the offer to a program, with the reason.
type Verdict struct {
	Offer   job.PMIOffer
	Why     string // "script"; "libmpi.so.40 -> /usr/lib/libmpi.so.40.30.4, Open MPI"
	Library string // name of the library that decided; empty: none
	Family  string // name of its implementation: "Open MPI", "MPICH", "PMIx"

	MPI job.MPILibrary // the same library, in the form used to look up known faults
}

// Speaks reports whether the program is known to use PMI or PMIx. It is false if it is offered both only because
// nothing is known.
func (v Verdict) Speaks() bool { return v.Library != "" || v.Offer != job.PMIOfferBoth }

func (v Verdict) String() string { return fmt.Sprintf("%s (%s)", v.Offer, v.Why) }

// A Judge finds Verdicts and caches them. It must be used by one goroutine only.
type Judge struct {
	files Files
	given map[question]Verdict
}

// A question is the key of the cache: everything that a Verdict depends on.
type question struct {
	program ID
	path    string // path of the program, for $ORIGIN
	search  Search
}

// mostVerdicts is the most Verdicts in the cache. A job that spawns for days may use any number of programs.
const mostVerdicts = 1024

// NewJudge returns a Judge for programs among these files.
func NewJudge(files Files) *Judge {
	return &Judge{files: files, given: make(map[question]Verdict)}
}

// Verdict returns the Verdict on the program that execve would load from path.
func (j *Judge) Verdict(path string, search Search) Verdict {
	f, err := j.files.Open(path)
	if err != nil {
		return verdict(Finding{Kind: Unreadable})
	}
	defer f.Close()
	id, err := f.ID()
	if err != nil {
		return verdict(Finding{Kind: Unreadable})
	}
	q := question{id, path, search}
	if known, ok := j.given[q]; ok {
		return known
	}
	if len(j.given) >= mostVerdicts {
		clear(j.given)
	}
	j.given[q] = verdict(find(j.files, f, path, search))
	return j.given[q]
}

// verdict converts a Finding to a Verdict.
func verdict(f Finding) Verdict {
	v := Verdict{Offer: Decide(f), Why: f.Kind.String()}
	var why []string
	for _, of := range []struct {
		family  string
		library *Library
	}{{"Open MPI", f.OpenMPI}, {"MPICH", f.MPICH}, {"PMIx", f.pmixAlone()}} {
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
		v.Why += map[job.PMIOffer]string{job.PMIOfferPMIx: ", linked with PMIx", job.PMIOfferPMI1: ", linked with PMI", job.PMIOfferBoth: ", linked with no MPI that can be told"}[v.Offer]
	}
	return v
}
