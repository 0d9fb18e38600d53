/*
Package setup is where features act on their options, between the command line and the launch of a job.

	line --Begin--> what Register got of each feature: checks, Run.Set, Run.OnLaunch, Run.OnEnd
	                   |
	     job.Request   |      ranks are about to be started: the functions of OnLaunch
	           '-------'--->  launch.Run
	                          mpiexec is about to exit: the functions of OnEnd
*/
package setup

import (
	"remshell/cli/option"
	"remshell/job"
	"remshell/launch"
	"remshell/wire"
)

// A Run is one run of mpiexec that concerns hosts, for its features.
type Run struct {
	Line      option.Line
	Env       *launch.Env  // of the launch
	Request   *job.Request // is made after Begin
	Accounted bool         // the cluster has a file for the accounts of jobs

	launching []func() error
	ending    []func(error) error
}

var features []func(*Run) error

// Register has begin called for each run, before its request is made. An error of begin ends the run. Register is called
// while the program is initialized.
func Register(begin func(*Run) error) { features = append(features, begin) }

// Begin calls the functions of all features.
func (r *Run) Begin() error {
	for _, begin := range features {
		if err := begin(r); err != nil {
			return err
		}
	}
	return nil
}

// Set makes s a setting of the job that is launched: see launch.SettingOf and wire.SettingOf.
func (r *Run) Set(s wire.Setting) { r.Env.Settings = append(r.Env.Settings, s) }

// OnLaunch has f called if the run starts ranks, when all else is ready. An error of f ends the run.
func (r *Run) OnLaunch(f func() error) { r.launching = append(r.launching, f) }

// OnEnd has f called at the end of the run, with the run's error. mpiexec prints the error that f returns.
func (r *Run) OnEnd(f func(error) error) { r.ending = append(r.ending, f) }

// Launch calls the functions of OnLaunch.
func (r *Run) Launch() error {
	for _, f := range r.launching {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// End calls the functions of OnEnd, and returns their errors.
func (r *Run) End(err error) (failed []error) {
	for _, f := range r.ending {
		if err := f(err); err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}
