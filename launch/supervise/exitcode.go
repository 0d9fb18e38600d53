package supervise

import "remshell/job"

// ExitCode returns mpiexec's exit code (rules EXIT-2, EXIT-3).
func (s *State) ExitCode() int {
	if s.Cause == nil {
		return job.ExitOK
	}
	code, success := s.rawCode()
	if s.Cause.isInternal() {
		code = job.InternalErrorCode(s.policy.EndPolicy.ErrorCode)
	}
	return job.ClampExitCode(code, success, s.policy.EndPolicy.ErrorCode)
}

// rawCode returns the exit code before it is limited to valid values. It is the code of the cause or, with
// --exit-status, the code that this option selects from the ranks' codes. success reports whether the job
// succeeded.
func (s *State) rawCode() (code int, success bool) {
	code = s.Cause.Code
	if s.Cause.Rank >= 0 {
		switch s.policy.EndPolicy.StatusRule {
		case "rank0":
			return s.codeOfRank0()
		case "max":
			code = s.combineCodes(func(a, b int) int { return max(a, b) })
		case "or":
			code = s.combineCodes(func(a, b int) int { return a | b })
		}
	}
	return code, code == 0 && s.Cause.isSuccess()
}

// combineCodes uses combine to combine the exit codes of all ranks that ended by themselves. If the result is 0, it
// returns the code of the cause.
func (s *State) combineCodes(combine func(a, b int) int) int {
	code := 0
	for _, e := range s.Exits {
		if !s.stoppedByUs(e) {
			code = combine(code, e.Status())
		}
	}
	if code == 0 { // the cause is not an exit but, for example, an abort
		return s.Cause.Code
	}
	return code
}

// codeOfRank0 returns the exit code of rank 0. If rank 0 has none, or has exited with 0 but is at fault, it
// returns the code of the cause.
func (s *State) codeOfRank0() (code int, success bool) {
	e := s.Exit(0)
	if e == nil || e.Status() == 0 && s.Cause.Rank == 0 {
		return s.Cause.Code, s.Cause.isSuccess()
	}
	return e.Status(), e.Status() == 0
}

// stoppedByUs reports whether a rank has ended because mpiexec has ended it.
func (s *State) stoppedByUs(e *job.Exit) bool { return e.ToldToEnd && e.Rank != s.Cause.Rank }
