//! The constraints and claims one by one: no column is free, no constraint is dead, every rounded value has one remainder, every
//! extreme value that the bounds allow is provable, and the public polynomials are what the committed columns interpolate.

mod cells;
mod claims;
mod eq_kernel;
mod extremes;
mod roundings;
mod setup;
