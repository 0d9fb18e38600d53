package supervise

import "remshell/job"

// ExitCode is the code mpiexec leaves with (EXIT-2, EXIT-3).
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

// rawCode is that of the cause, or what the ranks' own come to.
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

// combineCodes puts the codes of the ranks together that ended by themselves.
func (s *State) combineCodes(with func(a, b int) int) int {
	code := 0
	for _, e := range s.Exits {
		if !s.stoppedByUs(e) {
			code = with(code, e.Status())
		}
	}
	if code == 0 { // the cause is known otherwise, as an abort is
		return s.Cause.Code
	}
	return code
}

// codeOfRank0 is the code of rank 0, if it has one: who failed without any did not succeed.
func (s *State) codeOfRank0() (code int, success bool) {
	e := s.Exit(0)
	if e == nil || e.Status() == 0 && s.Cause.Rank == 0 {
		return s.Cause.Code, s.Cause.isSuccess()
	}
	return e.Status(), e.Status() == 0
}

// stoppedByUs reports whether a rank ended because we told it to.
func (s *State) stoppedByUs(e *job.Exit) bool { return e.ToldToEnd && e.Rank != s.Cause.Rank }
