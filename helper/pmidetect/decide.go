package pmidetect

import "remshell/job"

// A Kind says what kind of file a program is, such as a script.
type Kind int

// These are the kinds of program files.
const (
	Other      Kind = iota // neither ELF nor script
	Script                 // begins with #!; its interpreter is not examined
	Dynamic                // ELF, dynamically linked
	Static                 // ELF, statically linked
	Unreadable             // not readable (mode 0111), or missing
)

func (k Kind) String() string {
	return [...]string{"the program is neither an ELF file nor a script", "a script", "the program is not linked with an MPI library", "statically linked", "the program file cannot be read"}[k]
}

// A Finding is the result of examining a program.
type Finding struct {
	Kind Kind

	OpenMPI, MPICH, PMIx *Library // first library of each family; nil: not needed
	NeedsPMIx            bool     // the program itself, not a library, needs libpmix
	UCX                  bool     // libucp is needed
	MPICHHasPMI          bool     // a library of MPICH's family supports PMI, although PMIx is linked too

	HasPMIxVariable, HasPMIVariable bool // a static program contains "PMIX_NAMESPACE", or "PMI_FD"
}

// decidingPMIx returns the program's libpmix if only libpmix decides which PMI versions to offer, because the
// program needs libpmix directly and needs no MPI library. Otherwise it returns nil.
func (f Finding) decidingPMIx() *Library {
	if f.NeedsPMIx && f.OpenMPI == nil && f.MPICH == nil {
		return f.PMIx
	}
	return nil
}

// Decide returns which PMI versions to offer to a program, according to the table of rule PMIX-2.
func Decide(f Finding) job.PMIOffer {
	switch {
	case f.Kind == Static && f.HasPMIxVariable && !f.HasPMIVariable:
		return job.PMIOfferPMIx
	case f.Kind == Static && f.HasPMIVariable && !f.HasPMIxVariable:
		return job.PMIOfferPMI1
	case f.Kind != Dynamic:
		return job.PMIOfferBoth
	case f.OpenMPI != nil && f.MPICH != nil:
		return job.PMIOfferBoth
	case f.OpenMPI != nil:
		return job.PMIOfferPMIx
	case f.MPICH != nil && f.PMIx != nil && !f.MPICHHasPMI:
		return job.PMIOfferPMIx
	case f.MPICH != nil:
		return job.PMIOfferPMI1
	case f.NeedsPMIx:
		return job.PMIOfferPMIx
	}
	return job.PMIOfferBoth
}
