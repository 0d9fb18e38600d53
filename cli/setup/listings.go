package setup

import (
	"context"

	"remshell/cli/option"
	"remshell/format"
	"remshell/job"
	"remshell/launch/reserve"
)

// A Listing is the implementation of an mpijob subcommand, such as "ps", that prints the contents of the hosts'
// ledgers (directories in which jobs are recorded).
type Listing struct {
	// If reports whether the listing is for a command line. A listing without If is for all command lines that no other
	// listing is for.
	If func(option.Line) bool
	// Read reads the ledgers of the hosts. ref is the job that the user has named, or zero; Read may complete it.
	Read func(ctx context.Context, line option.Line, req job.Request, env reserve.Env, ref *job.JobRef) ([]job.LedgerListing, error)
	// Format returns the text for people. It returns false if there is no such job.
	Format func(format.Ledger, job.JobRef) (text string, found bool)
}

// listings contains the listings that features have registered. The keys are subcommands of mpijob.
var listings = make(map[string][]Listing)

// RegisterListing registers l as an implementation of an mpijob subcommand. A subcommand may have several listings;
// all but one need a condition (If). RegisterListing must be called during program initialization.
func RegisterListing(command string, l Listing) { listings[command] = append(listings[command], l) }

// ListingOf returns the listing for a command line with an mpijob subcommand. found is false if no feature
// has registered one.
func ListingOf(command string, line option.Line) (l Listing, found bool) {
	for _, one := range listings[command] {
		switch {
		case one.If == nil && !found:
			l, found = one, true
		case one.If != nil && one.If(line):
			return one, true
		}
	}
	return l, found
}
