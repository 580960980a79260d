//! Places on the Earth.
use core::{fmt, str::FromStr};

/// A place on the Earth, exact to a millionth of a degree (0.11 m).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Location {
    /// Millionths of a degree north of the equator, -90,000,000 to 90,000,000.
    latitude: i32,
    /// Millionths of a degree east of Greenwich, -180,000,000 to 180,000,000.
    longitude: i32,
}

const MICRODEGREES: f64 = 1e6;
const LATITUDE_MAX: u32 = 90_000_000;
const LONGITUDE_MAX: u32 = 180_000_000;

impl Location {
    /// The place at this latitude and longitude in degrees; `None` beyond ±90 and ±180.
    pub fn from_degrees(latitude: f64, longitude: f64) -> Option<Location> {
        let micro = |degrees: f64| libm::round(degrees * MICRODEGREES);
        let is_on_earth = latitude.abs() <= 90.0 && longitude.abs() <= 180.0;
        is_on_earth.then(|| Location { latitude: micro(latitude) as i32, longitude: micro(longitude) as i32 })
    }
    /// The place at this latitude and longitude in millionths of a degree; `None` beyond ±90 and ±180 degrees.
    pub fn from_microdegrees(latitude: i32, longitude: i32) -> Option<Location> {
        let is_on_earth = latitude.unsigned_abs() <= LATITUDE_MAX && longitude.unsigned_abs() <= LONGITUDE_MAX;
        is_on_earth.then_some(Location { latitude, longitude })
    }
    /// Latitude and longitude in millionths of a degree.
    pub fn microdegrees(self) -> (i32, i32) {
        (self.latitude, self.longitude)
    }
    /// Latitude and longitude in degrees.
    pub fn degrees(self) -> (f64, f64) {
        (f64::from(self.latitude) / MICRODEGREES, f64::from(self.longitude) / MICRODEGREES)
    }
    /// The great-circle distance in kilometres, by the haversine formula. libm gives the same bits on every machine.
    pub fn distance_km(self, other: Location) -> f64 {
        const EARTH_RADIUS_KM: f64 = 6_371.0;
        let radians = |place: Location| {
            let (latitude, longitude) = place.degrees();
            (latitude.to_radians(), longitude.to_radians())
        };
        let ((a_lat, a_lon), (b_lat, b_lon)) = (radians(self), radians(other));
        let square = |x: f64| x * x;
        let h = square(libm::sin((b_lat - a_lat) / 2.0))
            + libm::cos(a_lat) * libm::cos(b_lat) * square(libm::sin((b_lon - a_lon) / 2.0));
        2.0 * EARTH_RADIUS_KM * libm::asin(libm::sqrt(h.clamp(0.0, 1.0)))
    }
}

/// A text that names no place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocationError;

impl fmt::Display for LocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a latitude from -90 to 90 and a longitude from -180 to 180 degrees, such as \"37.98, 23.73\"")
    }
}

impl core::error::Error for LocationError {}

impl FromStr for Location {
    type Err = LocationError;

    /// Reads `latitude, longitude` in degrees.
    ///
    /// # Errors
    /// [`LocationError`] if these are not two numbers, or out of range.
    fn from_str(text: &str) -> Result<Location, LocationError> {
        let (latitude, longitude) = text.split_once(',').ok_or(LocationError)?;
        let degrees = |text: &str| text.trim().parse::<f64>().map_err(|_| LocationError);
        Location::from_degrees(degrees(latitude)?, degrees(longitude)?).ok_or(LocationError)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (latitude, longitude) = self.degrees();
        write!(f, "{latitude}, {longitude}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn at(text: &str) -> Location {
        text.parse().expect("a place")
    }

    #[test]
    fn distances_are_those_of_the_atlas() {
        // Airports, by their published positions and great-circle distances.
        for (a, b, km) in [
            ("51.4706, -0.461941", "40.6398, -73.7789", 5_540.0),
            ("-33.9461, 151.1772", "-33.3930, -70.7858", 11_340.0),
            ("37.9364, 23.9445", "37.9364, 23.9445", 0.0),
        ] {
            assert!((at(a).distance_km(at(b)) - km).abs() <= km * 0.005, "{a} to {b}: {}", at(a).distance_km(at(b)));
        }
        // Half around the Earth, over the date line too.
        assert!((at("0, 90").distance_km(at("0, -90")) - 20_015.0).abs() < 1.0);
        assert!(at("10, 179.9").distance_km(at("10, -179.9")) < 22.0);
    }

    #[test]
    fn what_is_no_place_is_refused() {
        for text in ["", "1", "91, 0", "0, 180.1", "NaN, 0", "inf, 0", "1, 2, 3", "north, south"] {
            assert_eq!(text.parse::<Location>(), Err(LocationError), "{text}");
        }
        assert_eq!(Location::from_microdegrees(i32::MIN, 0), None);
        assert_eq!(Location::from_microdegrees(0, 180_000_001), None);
        let place = at("-37.983810, 23.727539");
        assert_eq!(place.microdegrees(), (-37_983_810, 23_727_539));
        assert_eq!(at(&place.to_string()), place);
    }
}
