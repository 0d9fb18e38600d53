/*
Package setup calls features at fixed points of a run, so that they can act on their options.

	line --Begin--> the function that each feature registered: checks, Run.Set, Run.OnRequest, Run.OnLaunch, Run.OnEnd
	                   |
	     job.Request   |      the request is made: the functions of OnRequest
	           '-------'--->  ranks are about to be started: the functions of OnLaunch
	                          launch.Run
	                          mpiexec is about to exit: the functions of OnEnd
*/
package setup

import (
	"remshell/cli/option"
	"remshell/cli/record"
	"remshell/job"
	"remshell/launch"
	"remshell/limits"
	"remshell/wire"
)

// A Run represents one run of mpiexec that uses hosts, unlike --help. Through it, features can read and change the run.
type Run struct {
	Line       option.Line
	Dir        string       // the working directory
	Environ    []string     // mpiexec's environment
	Env        *launch.Env  // of the launch
	Request    *job.Request // is built after Begin
	Accounted  bool         // the cluster has a file for the accounts of jobs
	OnTerminal bool         // standard error is a terminal

	NeedsEnd      string                      // option of a feature that needs to know when the job ends; empty: none
	ReplaceReport bool                        // set if readers of --report's file must always see it complete
	Record        func(job.Result) record.Run // returns the record of the result so far, as --report has it; nil before OnLaunch

	limits       limits.Map
	limitOrigins limits.Origins

	requested []func() error
	launching []func() error
	ending    []func(error) error
}

var features []func(*Run) error

// Register adds a function that Begin calls for each run, before the request is made. If init returns an error, the run
// ends. Register is called during program initialization.
func Register(init func(*Run) error) { features = append(features, init) }

// Begin calls the functions that features have registered. It returns the first error.
func (r *Run) Begin() error {
	for _, begin := range features {
		if err := begin(r); err != nil {
			return err
		}
	}
	return nil
}

// Set adds a setting to the job that this run launches. Features read it with launch.SettingOf and wire.SettingOf.
func (r *Run) Set(s wire.Setting) { r.Env.Settings = append(r.Env.Settings, s) }

// Limit adds resource limits for the job. The cluster file and the job's class can set limits, too. Of several values for
// one limit, the smallest applies. origin says where the user has set the limits. Limit must be called during Begin,
// because the request is built with these limits afterwards.
func (r *Run) Limit(jobLimits limits.Map, origin string) {
	if r.limits == nil {
		r.limits, r.limitOrigins = make(limits.Map), make(limits.Origins)
	}
	limits.Tighten(r.limits, r.limitOrigins, jobLimits, origin)
}

// Limits returns the limits that Limit has added, and where each was set.
func (r *Run) Limits() (limits.Map, limits.Origins) { return r.limits, r.limitOrigins }

// OnRequest adds a function that is called when the request is made, before any connection to a host. It is called even
// if no ranks are started. f may change the request. If f returns an error, the run ends.
func (r *Run) OnRequest(f func() error) { r.requested = append(r.requested, f) }

// OnLaunch adds a function that is called just before ranks are started. If f returns an error, the run ends.
func (r *Run) OnLaunch(f func() error) { r.launching = append(r.launching, f) }

// OnEnd adds a function that is called at the end of the run, with the run's error. mpiexec prints the
// error that f returns.
func (r *Run) OnEnd(f func(error) error) { r.ending = append(r.ending, f) }

// RequestMade calls the functions that features have registered with OnRequest. It is called when the request
// of the job has been made.
func (r *Run) RequestMade() error { return callAll(r.requested) }

// Launch calls the functions that features have registered with OnLaunch. It is called just before the ranks
// are started.
func (r *Run) Launch() error { return callAll(r.launching) }

// callAll calls functions in order until one returns an error, and returns that error.
func callAll(functions []func() error) error {
	for _, f := range functions {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// End passes err, the error of the run, to the functions that OnEnd has added. It returns their errors.
func (r *Run) End(err error) (failed []error) {
	for _, f := range r.ending {
		if err := f(err); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}
