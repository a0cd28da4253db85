// Package predictedpeak scores nodes by the peak that the statistics of their pods' workloads predict.
package predictedpeak
