package job

// A PMIOffer says which PMI versions a rank can use to communicate with its helper (rule PMIX-1).
type PMIOffer string

// These are the possible offers of PMI versions. The zero value means the same as PMIOfferAuto.
const (
	PMIOfferAuto PMIOffer = "auto" // the helper decides by the libraries that the program is linked with
	PMIOfferPMI1 PMIOffer = "pmi1" // PMI-1 by the PMI socket
	PMIOfferPMI2 PMIOffer = "pmi2" // the PMI socket, with variables that make MPICH use PMI-2
	PMIOfferPMIx PMIOffer = "pmix"
	PMIOfferBoth PMIOffer = "both" // the PMI socket and PMIx
	PMIOfferNone PMIOffer = "none"
)

// OffersPMI reports whether a rank gets a socket for PMI-1 or PMI-2.
func (o PMIOffer) OffersPMI() bool {
	return o == PMIOfferPMI1 || o == PMIOfferPMI2 || o == PMIOfferBoth
}

// Description returns the name of the offer for messages.
func (o PMIOffer) Description() string {
	switch o {
	case PMIOfferPMI2:
		return "PMI-2"
	case PMIOfferPMIx:
		return "PMIx"
	case PMIOfferBoth:
		return "PMI-1 and PMIx"
	case PMIOfferNone:
		return "nothing"
	}
	return "PMI-1"
}

// OffersPMIx reports whether a rank gets the address of a PMIx server.
func (o PMIOffer) OffersPMIx() bool { return o == PMIOfferPMIx || o == PMIOfferBoth }
