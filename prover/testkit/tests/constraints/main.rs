//! The lookups and claims one by one: no column is free, no lookup is dead, every rounded value has one remainder, every extreme
//! value that the bounds allow is provable, and the public columns are what the verifier evaluates.

mod cells;
mod claims;
mod extremes;
mod norms;
mod powers;
mod readings;
mod roundings;
mod setup;
mod softmax;
mod units;
