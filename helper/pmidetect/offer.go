/*
Package offer decides by which process manager interfaces a program is to find its helper
(pmix-wire.md 1): a program of Open MPI speaks PMIx, one of MPICH's family PMI.

	program --readObject--> what it needs --follow--> Finding --Decide--> Verdict
	                        folders ---------'

The libraries of a program are looked for in the folders that it, they and LD_LIBRARY_PATH name, and in
the usual ones. Nothing is run. All but Disk is a function of files as values. A program of which no MPI
is found may load one, or become another program, as a shell does. It is offered both.
*/
package pmidetect

import (
	"fmt"
	"io"
	"path"
	"strings"

	"remshell/job"
)

// Files are those of the node.
type Files interface {
	// Open opens a regular file.
	Open(path string) (File, error)
	// Resolve is the path without symbolic links; the path itself if that cannot be told.
	Resolve(path string) string
}

// A File is an open one.
type File interface {
	io.ReaderAt
	io.Closer
	ID() (ID, error)
}

// An ID tells whether a file is still what it was.
type ID struct {
	Device, Inode  uint64
	Size, Modified int64 // bytes; ns since 1970
}

// A Search is what the environment of a rank says of where libraries are.
type Search struct {
	Dir         string // its working directory
	LibraryPath string // LD_LIBRARY_PATH
}

// SearchOf reads an environment, for a rank that starts in dir.
func SearchOf(env []string, dir string) Search {
	return Search{dir, job.EnvValue(env, "LD_LIBRARY_PATH")}
}

// A Library is one of a family that a program is linked with.
type Library struct {
	Name string // by which it is needed: "libmpi.so.40"
	Path string // of the file, without symbolic links; empty: it was not found
}

func (l Library) String() string {
	if l.Path == "" {
		return l.Name + ", which is not found"
	}
	return l.Name + " -> " + l.Path
}

// A Verdict is what a program is offered, and why.
type Verdict struct {
	Offer   job.PMIOffer
	Why     string // "script"; "libmpi.so.40 -> /usr/lib/libmpi.so.40.30.4, Open MPI"
	Library string // that decided, by name; empty: none did
	Family  string // of it, as people call it

	MPI job.MPILibrary // the same library, as its known faults are looked up
}

// Speaks reports whether something in the program speaks to a launcher: it is not offered both for
// want of knowledge.
func (v Verdict) Speaks() bool { return v.Library != "" || v.Offer != job.PMIOfferBoth }

func (v Verdict) String() string { return fmt.Sprintf("%s (%s)", v.Offer, v.Why) }

// A Judge gives verdicts, and remembers them. It belongs to one goroutine.
type Judge struct {
	files Files
	given map[question]Verdict
}

// question is what a verdict depends on.
type question struct {
	program ID
	path    string // $ORIGIN
	search  Search
}

// mostVerdicts are remembered; a job that spawns for days may ask of any number of programs.
const mostVerdicts = 1024

// NewJudge makes a judge of programs that are among these files.
func NewJudge(files Files) *Judge {
	return &Judge{files: files, given: make(map[question]Verdict)}
}

// Verdict judges the program that execve will load from a path.
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

// verdict is what comes of a finding.
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
