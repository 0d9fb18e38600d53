package request

import (
	"slices"
	"testing"

	"remshell/cli/option"
	"remshell/config"
	"remshell/job"
	"remshell/psi"
)

// The error for a class that the user may not use lists only classes that the user may use.
func TestARefusedClassIsNotListed(t *testing.T) {
	w := Inputs{Local: Localhost{User: job.User{UID: 1001}}, Cluster: &config.Cluster{Classes: map[string]config.Class{
		"long": {Users: []int{1002}}, "short": {}, "mine": {Users: []int{1001}}}}}
	for named, what := range map[string]string{"long": "is a class that you are not allowed to use", "none": "is not a class of the cluster file"} {
		_, err := w.jobClass(option.JobOptions{Class: named})
		refusal, is := err.(*psi.Error)
		if !is || refusal.Problem != what || !slices.Equal(refusal.Allowed, []string{"mine", "short"}) {
			t.Errorf("%s: %v", named, err)
		}
	}
}
