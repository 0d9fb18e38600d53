package setup

import (
	"context"

	"remshell/format"
	"remshell/job"
	"remshell/launch/reserve"
)

// A Listing is the function behind a command of mpijob that prints what the ledgers contain about jobs,
// such as "ps".
type Listing struct {
	// Read reads the ledgers of the hosts. ref is the job that the user has named, or zero; Read may complete it.
	Read func(ctx context.Context, req job.Request, env reserve.Env, ref *job.JobRef) ([]job.LedgerListing, error)
	// Format returns the text for people. It returns false if there is no such job.
	Format func(format.Ledger, job.JobRef) (text string, found bool)
}

// listings maps commands of mpijob to the listings that features have registered.
var listings = make(map[string]Listing)

// RegisterListing makes l carry out a command of mpijob. word is the subcommand of an option of the same
// feature. It is called while the program is initialized.
func RegisterListing(word string, l Listing) { listings[word] = l }

// ListingOf returns the listing of a command of mpijob. is is false if no feature has registered one.
func ListingOf(word string) (l Listing, is bool) {
	l, is = listings[word]
	return l, is
}
