package setup

import (
	"remshell/cli/option"
	"remshell/job"
)

// A JobRequest is a request to a running job, which users make with an mpijob subcommand, such as "suspend", or with
// the equivalent option of mpiexec.
type JobRequest struct {
	Verb  job.Verb
	Args  func(option.Line) ([]string, error) // returns the arguments of the request; nil: it has none
	Needs string                              // advice if the job was started without options that the request needs
}

var jobRequests = make(map[string]JobRequest)

// RegisterJobRequest registers the request that an mpijob subcommand makes. It is called during program initialization.
func RegisterJobRequest(word string, r JobRequest) { jobRequests[word] = r }

// JobRequestOf returns the request that an mpijob subcommand makes to a running job. found is false if the subcommand
// makes no such request.
func JobRequestOf(word string) (r JobRequest, found bool) {
	r, found = jobRequests[word]
	return r, found
}

// Request returns the request that a command line makes.
func (r JobRequest) Request(line option.Line) (request job.ControlRequest, err error) {
	request.Verb = r.Verb
	if r.Args != nil {
		request.Args, err = r.Args(line)
	}
	return request, err
}
