// Package targetloadpacking scores nodes so that their measured CPU utilization rises to a target and not beyond: below the
// target it packs, above it spreads.
package targetloadpacking
