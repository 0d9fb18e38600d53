package pmidetect

import (
	"fmt"
	"strings"
	"testing"

	"remshell/job"
)

// The table of PMIX-2, row by row.
func TestDecide(t *testing.T) {
	lib := &Library{Name: "l"}
	for _, test := range []struct {
		row   string
		found Finding
		want  job.PMIOffer
	}{
		{"Open MPI", Finding{Kind: Dynamic, OpenMPI: lib}, job.PMIOfferPMIx},
		{"Open MPI, and libpmix", Finding{Kind: Dynamic, OpenMPI: lib, PMIx: lib}, job.PMIOfferPMIx},
		{"MPICH", Finding{Kind: Dynamic, MPICH: lib}, job.PMIOfferPMI1},
		{"MPICH, built with PMIx", Finding{Kind: Dynamic, MPICH: lib, PMIx: lib}, job.PMIOfferPMIx},
		{"MPICH, with a libpmix that something else needs", Finding{Kind: Dynamic, MPICH: lib, PMIx: lib, MPICHHasPMI: true}, job.PMIOfferPMI1},
		{"both families", Finding{Kind: Dynamic, OpenMPI: lib, MPICH: lib}, job.PMIOfferBoth},
		{"PMIx without MPI", Finding{Kind: Dynamic, PMIx: lib, NeedsPMIx: true}, job.PMIOfferPMIx},
		{"a library that needs PMIx, without MPI", Finding{Kind: Dynamic, PMIx: lib}, job.PMIOfferBoth},
		{"dynamic, none of these", Finding{Kind: Dynamic}, job.PMIOfferBoth},
		{"static, PMIx", Finding{Kind: Static, HasPMIxVariable: true}, job.PMIOfferPMIx},
		{"static, PMI", Finding{Kind: Static, HasPMIVariable: true}, job.PMIOfferPMI1},
		{"static, both", Finding{Kind: Static, HasPMIxVariable: true, HasPMIVariable: true}, job.PMIOfferBoth},
		{"static, neither", Finding{Kind: Static}, job.PMIOfferBoth},
		{"script", Finding{Kind: Script}, job.PMIOfferBoth},
		{"anything else", Finding{Kind: Other}, job.PMIOfferBoth},
		{"unreadable", Finding{Kind: Unreadable}, job.PMIOfferBoth},
	} {
		if got := Decide(test.found); got != test.want {
			t.Errorf("%s: %s, want %s", test.row, got, test.want)
		}
	}
}

// The table of PMIX-3.
func TestFamilyOf(t *testing.T) {
	opal, other := &object{needed: []string{"libopen-pal.so.80"}}, &object{needed: []string{"libhwloc.so.15"}}
	for _, test := range []struct {
		names string
		found *object
		want  family
	}{
		{"libmpi.so.40 libmpi.so.20 libmpi.so.12", opal, openMPI},
		{"libmpi.so.40 libmpi.so.20", nil, openMPI},
		{"libmpi.so.40 libmpi.so.20", other, noFamily},
		{"libmpi.so.12", other, mpich},
		{"libmpi.so.12", nil, mpich},
		{"libopen-rte.so.40 libopen-pal.so.80 libopen_mpi.so.0 libmpi_mpifh.so.40 libmpi_usempif08.so.40 libmpi_usempi_ignore_tkr.so.40 libmpi_cxx.so.40 liboshmem.so.40 libmpi_abi_openmpi.so.0", nil, openMPI},
		{"libmpich.so.12 libmpich.so.0 libmpichcxx.so.12 libmpichfort.so.12 libmpifort.so.12 libmpicxx.so.12 libmpi_abi_mpich.so.0", nil, mpich},
		{"libpmix.so.2", nil, pmix},
		{"libmpi_abi.so.0 libmpi_cray.so.12 libmpt.so libpmi.so.0 libpmi2.so.0 libmpi.so.400 libmpi.so", nil, noFamily},
	} {
		for name := range strings.FieldsSeq(test.names) {
			if got := familyOf(name, test.found); got != test.want {
				t.Errorf("%s: %d, want %d", name, got, test.want)
			}
		}
	}
}

// world returns the files of a node with both MPI families in the default directories.
func world(more map[string]string) *folder {
	files := map[string]string{
		"/lib/libmpi.so.40":       "-> openmpi/libmpi.so.40.30.4",
		"/lib/libmpich.so.12":     string(elfFile{Text: "PMI_FD"}.bytes()),
		"/lib/libpmix.so.2":       string(elfFile{}.bytes()),
		"/lib/libfar.so.1":        string(elfFile{Needed: []string{"libmpi.so.40"}}.bytes()),
		"/usr/lib/libplain.so":    string(elfFile{}.bytes()),
		"/usr/lib/libopen-pal.so": string(elfFile{}.bytes()),

		"/lib/openmpi/libmpi.so.40.30.4": string(elfFile{Needed: []string{"libopen-pal.so.40", "libc.so.6"}}.bytes()),
	}
	for name, text := range more {
		files[name] = text
	}
	return &folder{files: files}
}

// look examines a program.
func look(t *testing.T, d *folder, program elfFile, env Search) Finding {
	t.Helper()
	d.files["/home/u/a.out"] = string(program.bytes())
	f, err := d.Open("/home/u/a.out")
	if err != nil {
		t.Fatal(err)
	}
	return examineProgram(d, f, "/home/u/a.out", env)
}

func TestFind(t *testing.T) {
	for _, test := range []struct {
		name    string
		program elfFile
		search  Search
		more    map[string]string
		want    string // text of the verdict
	}{
		{"Open MPI", elfFile{Needed: []string{"libmpi.so.40", "libc.so.6"}}, Search{}, nil,
			"pmix (libmpi.so.40 -> /lib/openmpi/libmpi.so.40.30.4, Open MPI)"},
		{"a library alone needs MPI, as with OpenFOAM", elfFile{Needed: []string{"libfar.so.1"}}, Search{}, nil,
			"pmix (libmpi.so.40 -> /lib/openmpi/libmpi.so.40.30.4, Open MPI)"},
		{"MPICH", elfFile{Needed: []string{"libmpich.so.12"}}, Search{}, nil, "pmi1 (libmpich.so.12 -> /lib/libmpich.so.12, MPICH)"},
		{"Fortran", elfFile{Needed: []string{"libmpichfort.so.12", "libgfortran.so.5"}}, Search{}, nil, "pmi1 (libmpichfort.so.12 (not found on this host), MPICH)"},
		{"not found", elfFile{Needed: []string{"libmpi.so.12"}}, Search{}, nil, "pmi1 (libmpi.so.12 (not found on this host), MPICH)"},
		{"both", elfFile{Needed: []string{"libfar.so.1", "libmpich.so.12"}}, Search{}, nil,
			"both (libmpi.so.40 -> /lib/openmpi/libmpi.so.40.30.4, Open MPI; libmpich.so.12 -> /lib/libmpich.so.12, MPICH)"},
		{"MPICH that speaks PMI, where PMIx is too", elfFile{Needed: []string{"libmpich.so.12", "libpmix.so.2"}}, Search{}, nil,
			"pmi1 (libmpich.so.12 -> /lib/libmpich.so.12, MPICH)"},
		{"MPICH that speaks PMIx alone", elfFile{Needed: []string{"libmpich.so.12", "libpmix.so.2"}}, Search{},
			map[string]string{"/lib/libmpich.so.12": string(elfFile{Text: "PMIX_RANK", Data: "PMI_FD"}.bytes())},
			"pmix (libmpich.so.12 -> /lib/libmpich.so.12, MPICH)"},
		{"PMIx alone", elfFile{Needed: []string{"libpmix.so.2"}}, Search{}, nil, "pmix (libpmix.so.2 -> /lib/libpmix.so.2, PMIx)"},
		{"no MPI", elfFile{Needed: []string{"libc.so.6", "libplain.so"}}, Search{}, nil, "both (the program is not linked with an MPI library)"},
		{"DT_RPATH comes before LD_LIBRARY_PATH", elfFile{Needed: []string{"libm.so"}, RPath: "/r"}, Search{LibraryPath: "/l"},
			map[string]string{"/r/libm.so": string(elfFile{Needed: []string{"libmpich.so.12"}}.bytes()), "/l/libm.so": string(elfFile{}.bytes())},
			"pmi1 (libmpich.so.12 -> /lib/libmpich.so.12, MPICH)"},
		{"DT_RUNPATH comes after it, and DT_RPATH does not count beside it", elfFile{Needed: []string{"libm.so"}, RPath: "/r", RunPath: "/r"}, Search{LibraryPath: "/x:/l"},
			map[string]string{"/l/libm.so": string(elfFile{Needed: []string{"libmpich.so.12"}}.bytes()), "/r/libm.so": string(elfFile{}.bytes())},
			"pmi1 (libmpich.so.12 -> /lib/libmpich.so.12, MPICH)"},
		{"DT_RUNPATH of a library holds for what it needs", elfFile{Needed: []string{"libplain.so"}}, Search{},
			map[string]string{"/usr/lib/libplain.so": string(elfFile{Needed: []string{"libmpi.so.12"}, RunPath: "/r"}.bytes()), "/r/libmpi.so.12": string(elfFile{}.bytes())},
			"pmi1 (libmpi.so.12 -> /r/libmpi.so.12, MPICH)"},
		{"$ORIGIN", elfFile{Needed: []string{"libmpi.so.12"}, RunPath: "$ORIGIN/../lib"}, Search{},
			map[string]string{"/home/lib/libmpi.so.12": string(elfFile{}.bytes())}, "pmi1 (libmpi.so.12 -> /home/lib/libmpi.so.12, MPICH)"},
		{"a folder below that of the rank", elfFile{Needed: []string{"libmpi.so.12"}}, Search{LibraryPath: "/x:lib", Dir: "/w"},
			map[string]string{"/w/lib/libmpi.so.12": string(elfFile{}.bytes())}, "pmi1 (libmpi.so.12 -> /w/lib/libmpi.so.12, MPICH)"},
		{"a path is no name to look for", elfFile{Needed: []string{"./libmpi.so.12"}}, Search{Dir: "/w"},
			map[string]string{"/w/libmpi.so.12": string(elfFile{}.bytes())}, "pmi1 (libmpi.so.12 -> /w/libmpi.so.12, MPICH)"},
		{"folders of the system", elfFile{Needed: []string{"libmpi.so.12"}}, Search{},
			map[string]string{"/usr/lib/x86_64-linux-gnu/libmpi.so.12": string(elfFile{}.bytes())}, "pmi1 (libmpi.so.12 -> /usr/lib/x86_64-linux-gnu/libmpi.so.12, MPICH)"},
		{"a file that is no object is passed over", elfFile{Needed: []string{"libmpi.so.12"}}, Search{LibraryPath: "/text:/here"},
			map[string]string{"/text/libmpi.so.12": "INPUT(libmpi.so)", "/here/libmpi.so.12": string(elfFile{}.bytes())}, "pmi1 (libmpi.so.12 -> /here/libmpi.so.12, MPICH)"},
		{"MPICH's ABI over Open MPI", elfFile{Needed: []string{"libmpi.so.12"}}, Search{LibraryPath: "/o"},
			map[string]string{"/o/libmpi.so.12": string(elfFile{Needed: []string{"libopen-rte.so.12"}}.bytes())}, "pmix (libmpi.so.12 -> /o/libmpi.so.12, Open MPI)"},
		{"the ABI of MPI 5 is asked what it needs", elfFile{Needed: []string{"libmpi_abi.so.0"}}, Search{LibraryPath: "/o"},
			map[string]string{"/o/libmpi_abi.so.0": string(elfFile{Needed: []string{"libmpich.so.12"}}.bytes())}, "pmi1 (libmpich.so.12 -> /lib/libmpich.so.12, MPICH)"},
		{"needed in a circle", elfFile{Needed: []string{"libplain.so"}}, Search{},
			map[string]string{"/usr/lib/libplain.so": string(elfFile{Needed: []string{"libplain.so"}}.bytes())}, "both (the program is not linked with an MPI library)"},
		{"static, Open MPI", elfFile{Static: true, Text: "PMIX_NAMESPACE"}, Search{}, nil, "pmix (statically linked with PMIx)"},
		{"static, MPICH", elfFile{Static: true, Text: strings.Repeat("-", searchStep-400) + "PMI_FD" + strings.Repeat("-", searchStep)}, Search{}, nil, "pmi1 (statically linked with PMI-1)"},
		{"static, with the word where it can be written", elfFile{Static: true, Data: "PMI_FD"}, Search{}, nil, "both (statically linked, and no MPI library could be recognized in it)"},
		{"static, and too large to search", elfFile{Static: true, Text: "PMI_FD" + strings.Repeat("-", maxSearchedBytes)}, Search{}, nil, "both (statically linked, and no MPI library could be recognized in it)"},
	} {
		got := verdictOf(look(t, world(test.more), test.program, test.search)).String()
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

func TestFilesThatAreNoPrograms(t *testing.T) {
	d := world(map[string]string{"/script": "#!/bin/sh\n", "/text": "echo", "/empty": "", "/secret": "unreadable",
		"/cut": string(elfFile{Needed: []string{"libmpi.so.40"}}.bytes()[:200])})
	j := NewDetector(d)
	for name, want := range map[string]string{"/script": "a script", "/text": "the program is neither an ELF file nor a script", "/empty": "the program is neither an ELF file nor a script",
		"/secret": "the program file cannot be read", "/none": "the program file cannot be read", "/cut": "the program is neither an ELF file nor a script"} {
		if v := j.Detect(name, Search{}); v.Offer != job.PMIOfferBoth || v.Why != want {
			t.Errorf("%s: %s, want both (%s)", name, v, want)
		}
	}
}

// A search for more libraries than any program has ends, and the result so far decides.
func TestSearchLimits(t *testing.T) {
	var program elfFile
	files := make(map[string]string)
	for i := range maxFiles {
		name := fmt.Sprintf("libw%d.so", i)
		program.Needed = append(program.Needed, name)
		files["/usr/lib/"+name] = string(elfFile{Needed: []string{"libmpich.so.12"}}.bytes())
	}
	d := world(files)
	if f := look(t, d, program, Search{}); f.MPICH == nil || len(d.opened) > maxFiles*(1+strings.Count(defaultDirs, ":")) {
		t.Errorf("%+v of %d paths", f, len(d.opened))
	}

	d = world(nil)
	look(t, d, program, Search{LibraryPath: strings.Repeat("/a:", maxPathsTried/maxFiles+1)})
	if len(d.opened) != 1+maxPathsTried {
		t.Errorf("%d paths, want %d", len(d.opened), 1+maxPathsTried)
	}
}

// A verdict is cached as long as nothing changes that it depends on.
func TestVerdictsAreCached(t *testing.T) {
	d := world(nil)
	d.files["/a"] = string(elfFile{Needed: []string{"libmpi.so.40"}}.bytes())
	j := NewDetector(d)
	ask := func(search Search) (v Verdict, opened int) {
		before := len(d.opened)
		v = j.Detect("/a", search)
		return v, len(d.opened) - before
	}
	first, cold := ask(Search{})
	again, cached := ask(Search{})
	if first != again || cold < 3 || cached != 1 {
		t.Errorf("%s, %d files; then %s, %d files", first, cold, again, cached)
	}
	if _, other := ask(Search{LibraryPath: "/l"}); other < 3 {
		t.Errorf("with another LD_LIBRARY_PATH %d files", other)
	}
	d.files["/a"] = string(elfFile{Needed: []string{"libmpich.so.12"}}.bytes())
	if v, _ := ask(Search{}); v.Offer != job.PMIOfferPMI1 {
		t.Errorf("of the changed file: %s", v)
	}
}
