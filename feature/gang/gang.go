/*
Package gang is a feature: jobs that share CPUs take turns, whole jobs at a time (--gang). Package turns decides who runs in
which slice. Each helper applies it to the ranks of its node. Nothing is agreed between jobs but the claims in the ledger.

	plan: CPUs and a party --Prepare--> claim with party, P and slice
	                                      |
	helper: claims of its node -----------'  first, and at every change
	   |      competitors = gangs that share a CPU
	   |  Competition ------> mpiexec: union of all nodes
	   |  <------ Competitors ---'  |
	   v                            '--> the job's clock stands still while ranks are held
	schedule --> hold or release the ranks with the reason "gang"

	schedule         schedule.go, pure
	the rule         remshell/job/turns, pure
	placement        remshell/plan, gang.go
*/
package gang
