package job

// An Offer says by which process manager interfaces a rank may reach its helper (PMIX-1).
type Offer string

// The offers. The zero value stands for OfferAuto.
const (
	OfferAuto Offer = "auto" // the helper decides by what the program is linked with
	OfferPMI1 Offer = "pmi1" // the PMI socket
	OfferPMI2 Offer = "pmi2" // the same, and MPICH is told to speak PMI-2
	OfferPMIx Offer = "pmix"
	OfferBoth Offer = "both" // the PMI socket and PMIx
	OfferNone Offer = "none"
)

// PMI reports whether a rank gets the PMI socket.
func (o Offer) PMI() bool { return o == OfferPMI1 || o == OfferPMI2 || o == OfferBoth }

// Words is an offer for people.
func (o Offer) Words() string {
	switch o {
	case OfferPMI2:
		return "PMI-2"
	case OfferPMIx:
		return "PMIx"
	case OfferBoth:
		return "PMI-1 and PMIx"
	case OfferNone:
		return "nothing"
	}
	return "PMI-1"
}

// PMIx reports whether a rank gets the address of a PMIx server.
func (o Offer) PMIx() bool { return o == OfferPMIx || o == OfferBoth }
