package pmidetect

import "remshell/job"

// A Kind is what a file is to execve and the dynamic loader.
type Kind int

// The kinds.
const (
	Other      Kind = iota // nothing that we know: the interpreter of a script is not asked
	Script                 // #!
	Dynamic                // ELF that needs libraries
	Static                 // ELF that needs none
	Unreadable             // mode 0111, or gone
)

func (k Kind) String() string {
	return [...]string{"neither ELF nor script", "script", "linked with no MPI", "static", "cannot be read"}[k]
}

// A Finding is what was found of a program.
type Finding struct {
	Kind Kind

	OpenMPI, MPICH, PMIx *Library // the first of each family; nil: none is needed
	Direct               bool     // the program itself needs libpmix
	UCX                  bool     // libucp is needed
	PMIWithin            bool     // a library of MPICH's family speaks PMI, although PMIx is there too

	Namespace, Socket bool // a static program knows the variables PMIX_NAMESPACE, PMI_FD
}

// pmixAlone is libpmix where it decides: a program needs it for itself.
func (f Finding) pmixAlone() *Library {
	if f.Direct && f.OpenMPI == nil && f.MPICH == nil {
		return f.PMIx
	}
	return nil
}

// Decide is the table of PMIX-2.
func Decide(f Finding) job.PMIOffer {
	switch {
	case f.Kind == Static && f.Namespace && !f.Socket:
		return job.PMIOfferPMIx
	case f.Kind == Static && f.Socket && !f.Namespace:
		return job.PMIOfferPMI1
	case f.Kind != Dynamic:
		return job.PMIOfferBoth
	case f.OpenMPI != nil && f.MPICH != nil:
		return job.PMIOfferBoth
	case f.OpenMPI != nil:
		return job.PMIOfferPMIx
	case f.MPICH != nil && f.PMIx != nil && !f.PMIWithin:
		return job.PMIOfferPMIx
	case f.MPICH != nil:
		return job.PMIOfferPMI1
	case f.Direct:
		return job.PMIOfferPMIx
	}
	return job.PMIOfferBoth
}
