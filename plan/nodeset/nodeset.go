/*
Package nodeset makes node sets and chooses one for a job. A node set is a group of nodes with a common
attribute, such as a switch or a CPU speed.

	requests of all sources --Resolve--> Setting      the effective request of flags, variables, class, cluster

The package does not know jobs or clusters. Nodes are values with capacities and speeds, and requests are
texts. Sets are not stored: they are made for each request, from the nodes that meet all other
requirements.
*/
package nodeset
