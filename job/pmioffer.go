package job

// A PMIOffer says by which process manager interfaces a rank may reach its helper (PMIX-1).
type PMIOffer string

// The offers. The zero value stands for OfferAuto.
const (
	PMIOfferAuto PMIOffer = "auto" // the helper decides by what the program is linked with
	PMIOfferPMI1 PMIOffer = "pmi1" // the PMI socket
	PMIOfferPMI2 PMIOffer = "pmi2" // the same, and MPICH is told to speak PMI-2
	PMIOfferPMIx PMIOffer = "pmix"
	PMIOfferBoth PMIOffer = "both" // the PMI socket and PMIx
	PMIOfferNone PMIOffer = "none"
)

// OffersPMI reports whether a rank gets the PMI socket.
func (o PMIOffer) OffersPMI() bool {
	return o == PMIOfferPMI1 || o == PMIOfferPMI2 || o == PMIOfferBoth
}

// Description is an offer for people.
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
